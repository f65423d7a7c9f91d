from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowledge_client.models import Recalled, Receipt, Ref, Source
from knowledge_service.domain.access_control import ScopeRange, View
from knowledge_service.domain.recall_filters import Filters
from knowledge_service.errors import IdempotencyConflict
from knowledge_service.ports import (
    ActionContext,
    AuditReader,
    IdempotencyKey,
    Listing,
    NewLink,
    NewReceipt,
    Search,
    Store,
)
from tests.contract.store.conftest import Time
from tests.fakes.store import MemoryStore
from tests.knowledge_builders import (
    AGENT,
    ALL,
    LEAD,
    OPERATOR,
    OTHER,
    PERSON,
    TEAM,
    new_fact,
    run_in,
)

VIEW = View(LEAD)


def contents(store: Store, query: str, view: View = VIEW, **fields: Any) -> list[str]:
    filters = Filters(**fields.pop("filters", {}))
    search = Search(view, query, fields.pop("limit", 10), filters=filters, **fields)
    return [hit.fact.content for hit in store.search(search).hits]


def test_best_match_comes_first(store: Store) -> None:
    store.remember(
        [
            new_fact("the pod waits for a volume"),
            new_fact("ImagePullBackOff: the registry has no such image"),
            new_fact("an image is built by buildah"),
        ],
        actor=PERSON,
    )
    assert contents(store, "ImagePullBackOff for an image")[0].startswith("ImagePullBackOff")
    assert "the pod waits for a volume" not in contents(store, "ImagePullBackOff for an image")


def test_reader_without_drafts_recalls_no_earlier_version_of_what_was_rejected(
    store: Store, time: Time
) -> None:
    (rejected,) = store.remember([new_fact("rain falls up")], actor=PERSON)
    store.remember([new_fact("rain falls down")], actor=PERSON)
    known_at = time.pass_(minutes=1)
    time.pass_(minutes=1)
    store.reject(rejected.fact_id, ActionContext(PERSON, "it is wrong"))
    filters = Filters(known_at=known_at)
    for view, expected in (
        (View(LEAD, drafts=False), ["rain falls down"]),
        (VIEW, ["rain falls down", "rain falls up"]),
    ):
        assert sorted(contents(store, "rain", view, filters={"known_at": known_at})) == expected
        recent = store.recent(Search(view, "", 10, scopes=(TEAM,), filters=filters))
        assert sorted(fact.content for fact in recent) == expected


def test_identifiers_are_found_whole_and_in_parts(store: Store) -> None:
    store.remember([new_fact("set max_open_files in app/limits.py")], actor=PERSON)
    for query in ("max_open_files", "open files", "app/limits.py", "limits"):
        assert contents(store, query), query


@pytest.mark.parametrize(
    ("content", "query"),
    [
        ("the ConfigMaps of the gateway", "configmap"),
        ("the configmap of the gateway", "ConfigMap"),
        ("raise max_connections", "maxconnections"),
        ("GitHub closes idle runners", "github"),
        ("a fail-over takes six minutes", "failover"),
        ("a failover takes six minutes", "fail-over"),
    ],
)
def test_joined_words_match_in_any_spelling(store: Store, content: str, query: str) -> None:
    store.remember([new_fact(content)], actor=PERSON)
    assert contents(store, query) == [content]


def test_words_are_stemmed_and_stop_words_find_nothing(store: Store) -> None:
    store.remember([new_fact("pods were failing")], actor=PERSON)
    assert contents(store, "a failed pod") == ["pods were failing"]
    assert contents(store, "were the of a") == []
    assert contents(store, "") == []


def test_equal_scores_keep_the_order_of_ids(store: Store) -> None:
    store.remember([new_fact(f"rain {n}") for n in range(20)], actor=PERSON)
    assert contents(store, "rain", limit=7) == [f"rain {n}" for n in range(7)]


def test_confidence_is_read_to_the_last_bit(store: Store) -> None:
    confidences = [1 / 3, 0.1 + 0.2, 1e-300, 5e-324, 1.0, 0.0, 0.9999999999999999]
    rows = [new_fact(f"rain {n}", confidence=value) for n, value in enumerate(confidences)]
    store.remember(rows, actor=PERSON)
    hits = store.search(Search(VIEW, "rain", 10)).hits
    found = {hit.fact.content: hit.fact.confidence.hex() for hit in hits}
    assert found == {f"rain {n}": value.hex() for n, value in enumerate(confidences)}
    parts = {hit.fact.content: hit.parts["x_confidence"] for hit in hits}
    assert parts == {f"rain {n}": 0.9 + 0.2 * value for n, value in enumerate(confidences)}


def test_any_text_is_read_as_it_was_written(store: Store) -> None:
    contents_written = [
        'rain "quoted" \\ and /',
        "rain\ttab\r\nline \u2028",
        "rain \U0001f327 \u00e9 \x7f",
    ]
    tags = ('a"b', "ü", "\\")
    rows = [new_fact(content, tags=tags) for content in contents_written]
    written = store.remember(rows, actor=PERSON)
    ids = [result.fact_id for result in written]
    hits = store.search(Search(VIEW, "rain", 10)).hits
    facts = [store.fact(fact_id, VIEW) for fact_id in ids]
    assert [next(hit.fact for hit in hits if hit.fact.id == fact_id) for fact_id in ids] == facts


def test_match_behind_a_thousand_rejected_ones_is_found(store: Store) -> None:
    for start in range(0, 1000, 200):
        store.remember([new_fact(f"rain {start + n}") for n in range(200)], actor=PERSON)
    store.remember([new_fact("rain fell for many hours on the roof", kind="warning")], actor=PERSON)
    assert contents(store, "rain", filters={"kinds": ("warning",)}) == [
        "rain fell for many hours on the roof"
    ]


def test_what_was_just_remembered_is_found(store: Store) -> None:
    for n in range(3):
        store.remember([new_fact(f"colour number {n}")], actor=PERSON)
        assert f"colour number {n}" in contents(store, "colour")


def test_corrected_facts_are_not_returned(store: Store) -> None:
    (remembered,) = store.remember([new_fact("the build needs Java 21")], actor=PERSON)
    store.correct(remembered.fact_id, "old", "the build needs Java 25", actor=PERSON)
    assert contents(store, "build Java") == ["the build needs Java 25"]


def test_filters_hold(store: Store, time: Time) -> None:
    start = time.now
    store.remember(
        [
            new_fact("rain one", kind="pitfall", tags=("Wet",), confidence=0.9),
            new_fact("rain two", confidence=0.3, valid_until=start + timedelta(days=1)),
        ],
        actor=PERSON,
    )
    assert contents(store, "rain", filters={"kinds": ("pitfall",)}) == ["rain one"]
    assert contents(store, "rain", filters={"tags": ("wet",)}) == ["rain one"]
    assert contents(store, "rain", filters={"min_confidence": 0.5}) == ["rain one"]
    later_time = start + timedelta(days=2)
    assert contents(store, "rain", filters={"valid_at": later_time}) == ["rain one"]
    assert len(contents(store, "rain", filters={"valid_at": start})) == 2


def test_known_at_shows_what_was_live_then(store: Store, time: Time) -> None:
    (remembered,) = store.remember([new_fact("rain falls up")], actor=PERSON)
    earlier = time.now
    time.pass_(hours=1)
    store.correct(remembered.fact_id, "it falls down", None, actor=PERSON)
    assert contents(store, "rain") == []
    assert contents(store, "rain", filters={"known_at": earlier}) == ["rain falls up"]


def test_link_that_was_made_since_leads_nowhere_then(store: Store, time: Time) -> None:
    facts = [new_fact("rain falls down"), new_fact("the gutter leaks")]
    rain, gutter = (
        remembered_fact.fact_id for remembered_fact in store.remember(facts, actor=PERSON)
    )
    earlier = time.now
    time.pass_(hours=1)
    store.link(NewLink(rain, gutter, "related"), ALL, actor=PERSON)
    assert contents(store, "rain") == ["rain falls down", "the gutter leaks"]
    assert contents(store, "rain", filters={"known_at": earlier}) == ["rain falls down"]


def test_nearer_fact_that_was_retracted_since_overrides_a_farther_one_then(
    store: Store, time: Time
) -> None:
    key = {"subject": "weather", "predicate": "is"}
    store.remember([new_fact("rain falls down", **key)], actor=PERSON)
    (near_fact,) = store.remember([new_fact("snow", scope=LEAD, **key)], actor=PERSON)
    assert contents(store, "rain") == []
    earlier = time.now
    time.pass_(hours=1)
    store.correct(near_fact.fact_id, "it melted", None, actor=PERSON)
    assert contents(store, "rain") == ["rain falls down"]
    assert contents(store, "rain", filters={"known_at": earlier}) == []


def test_reader_finds_its_own_path_and_what_it_was_granted(store: Store) -> None:
    store.remember(
        [
            new_fact(f"rain in {scope}", scope=scope)
            for scope in (LEAD, TEAM, "realm:demo", "platform", OTHER, f"{TEAM}/cell:lead-1")
        ],
        actor=PERSON,
    )
    visible_texts = {f"rain in {scope}" for scope in (LEAD, TEAM, "realm:demo", "platform")}
    assert set(contents(store, "rain")) == visible_texts
    assert set(contents(store, "rain", scopes=(TEAM, OTHER))) == {f"rain in {TEAM}"}
    granted = View("realm:demo", (ScopeRange("realm:demo", subtree=True),))
    assert len(contents(store, "rain", view=granted)) == 5
    assert len(contents(store, "rain", view=ALL)) == 6


def test_recent_gives_the_nearest_scope_first_then_confidence(store: Store) -> None:
    store.remember(
        [
            new_fact("wide", scope="realm:demo", confidence=1),
            new_fact("team, unsure", confidence=0.6),
            new_fact("team, sure", confidence=0.8),
            new_fact("own", scope=LEAD),
        ],
        actor=PERSON,
    )
    listed = store.recent(Search(VIEW, "", 3))
    assert [fact.content for fact in listed] == ["own", "team, sure", "team, unsure"]


WORDS = st.sampled_from(["rain", "sun", "wind", "snow", "fog", "hail", "ice", "storm"])
SENTENCE = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)
SCOPES = [LEAD, TEAM, "realm:demo", "platform"]
STRANGE = [
    OTHER,
    "realm:other",
    f"{TEAM}/cell:lead-1",
    "realm:demo/formation:b",
    "realm:demo/cell:x",
]


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(
    own_facts=st.lists(st.tuples(st.sampled_from(SCOPES), SENTENCE), max_size=12),
    other_facts=st.lists(st.tuples(st.sampled_from(STRANGE), SENTENCE), max_size=12),
    query=SENTENCE,
)
def test_other_tenants_change_neither_order_nor_scores(
    own_facts: list[tuple[str, str]], other_facts: list[tuple[str, str]], query: str
) -> None:
    """The fake shares analyser, scorer and rules with SQLite; `test_sqlite` repeats it there."""
    assert_isolated(MemoryStore(), MemoryStore(), own_facts, other_facts, query)


def assert_isolated(
    alone: Store,
    shared: Store,
    own_facts: list[tuple[str, str]],
    other_facts: list[tuple[str, str]],
    query: str,
) -> None:
    for n, (scope, text) in enumerate(own_facts):
        alone.remember([new_fact(f"{text} {n}", scope=scope)], actor=PERSON)
    for n, (scope, text) in enumerate(other_facts):
        shared.remember([new_fact(f"{text} {n}", scope=scope)], actor=PERSON)
        if n < len(own_facts):
            shared.remember(
                [new_fact(f"{own_facts[n][1]} {n}", scope=own_facts[n][0])], actor=PERSON
            )
    for n in range(len(other_facts), len(own_facts)):
        shared.remember([new_fact(f"{own_facts[n][1]} {n}", scope=own_facts[n][0])], actor=PERSON)

    def seen(store: Store) -> object:
        hits = store.search(Search(VIEW, query, 10)).hits
        recent = store.recent(Search(VIEW, "", 10))
        listed = store.list_facts(Listing(VIEW, 50))
        paths = store.list_scopes(VIEW)
        return (
            [(hit.fact.content, hit.score) for hit in hits],
            [fact.content for fact in recent],
            [fact.content for fact in listed],
            store.visible_scopes(VIEW, None),
            [(stats.path, stats.facts) for stats in store.scope_stats(paths, VIEW)],
        )

    assert seen(alone) == seen(shared)


def receipt(name: str, *facts: str, run: str | None = None) -> tuple[NewReceipt, Recalled]:
    now = Time().now
    kept = Receipt(
        id=name,
        query_hash="0",
        principal="demo/lead-0",
        scopes=(TEAM,),
        known_at=now,
        ranker="r",
        analyser="a",
        run=run,
        facts=facts,
        scores=(1.0,) * len(facts),
    )
    answer = Recalled(receipt=name, facts=(), scopes=(TEAM,), known_at=now, ranker="r")
    return NewReceipt(kept, LEAD), answer


class TestReceipts:
    def test_repeat_with_the_same_key_gives_the_same_receipt(self, store: Store) -> None:
        first_key = IdempotencyKey("operator", "recall-1", "body")
        first = store.record_recall(*receipt("r-1"), first_key)
        second = store.record_recall(*receipt("r-2"), first_key)
        assert (first.receipt, second) == ("r-1", first)
        assert store.receipt("r-2") is None
        with pytest.raises(IdempotencyConflict):
            store.record_recall(*receipt("r-3"), IdempotencyKey("operator", "recall-1", "other"))

    def test_receipt_holds_what_was_returned(self, store: Store) -> None:
        (remembered,) = store.remember([new_fact()], actor=PERSON)
        store.record_recall(*receipt("r-1", remembered.fact_id, run="run-1"), None)
        stored_receipt = store.receipt("r-1")
        assert stored_receipt is not None
        assert (stored_receipt.receipt.facts, stored_receipt.observer) == (
            (remembered.fact_id,),
            LEAD,
        )

    def test_facts_in_front_of_a_run_earn_its_outcome_once(self, store: Store) -> None:
        (stored,) = store.remember([new_fact()], actor=PERSON)
        store.put_run("run-1", run_in(), actor=OPERATOR)
        for name in ("r-1", "r-2"):  # two attempts, one credit
            store.record_recall(*receipt(name, stored.fact_id, run="run-1"), None)
        for _ in range(2):
            store.put_run("run-1", run_in(outcome="Succeeded"), actor=OPERATOR)
        (stats,) = store.scope_stats([TEAM], ALL)
        assert (stats.facts, stats.recalls, stats.usefulness) == (1, 2, 0.6)

    def test_excluded_outcomes_give_no_credit(self, store: Store) -> None:
        (told,) = store.remember([new_fact()], actor=PERSON)
        store.put_run("run-1", run_in(), actor=OPERATOR)
        store.record_recall(*receipt("r-1", told.fact_id, run="run-1"), None)
        store.put_run("run-1", run_in(outcome="Cancelled"), actor=OPERATOR)
        assert store.scope_stats([TEAM], ALL)[0].usefulness is None

    def test_session_that_an_agent_closes_itself_praises_nothing(self, store: Store) -> None:
        (told,) = store.remember([new_fact()], actor=PERSON)
        for who in (AGENT, OPERATOR):
            session = run_in(kind="session")
            store.put_run(who.name, session, actor=who)
            store.record_recall(*receipt(f"r-{who.name}", told.fact_id, run=who.name), None)
            closing = session.model_copy(update={"outcome": "Succeeded"})
            store.put_run(who.name, closing, actor=who)
            usefulness = store.scope_stats([TEAM], ALL)[0].usefulness
            assert usefulness == (None if who is AGENT else 0.6)

    def test_run_praises_nothing_that_was_learnt_in_it(self, store: Store) -> None:
        source = Source(refs=(Ref(type="run", id="run-1"),), actor="ada")
        (told,) = store.remember([new_fact(source=source)], actor=PERSON)
        for run_id in ("run-1", "run-2"):
            store.put_run(run_id, run_in(), actor=OPERATOR)
            store.record_recall(*receipt(f"r-{run_id}", told.fact_id, run=run_id), None)
            store.put_run(run_id, run_in(outcome="Succeeded"), actor=OPERATOR)
            impact = store.impact(told.fact_id, AuditReader(ALL, "x"), limit=9)
            assert impact is not None
            assert ("succeeded" in impact.usage) == (run_id == "run-2")

    def test_usage_of_observers_out_of_sight_does_not_count(self, store: Store) -> None:
        (told,) = store.remember([new_fact(scope="realm:demo")], actor=PERSON)
        store.record_recall(*receipt("r-1", told.fact_id, run="run-1"), None)
        elsewhere = View("realm:demo/formation:other")
        assert store.scope_stats(["realm:demo"], elsewhere)[0].recalls == 0
        assert store.scope_stats(["realm:demo"], VIEW)[0].recalls == 1

    def test_old_ones_are_let_go_of_but_not_those_of_open_runs(
        self, store: Store, time: Time
    ) -> None:
        (told,) = store.remember([new_fact()], actor=PERSON)
        store.put_run("open", run_in(), actor=OPERATOR)
        store.record_recall(*receipt("r-1", told.fact_id), None)
        store.record_recall(*receipt("r-2", told.fact_id, run="open"), None)
        time.pass_(days=40)
        earlier = time.now - timedelta(days=30)
        assert store.delete_old_receipts(earlier) == 1
        assert store.receipt("r-1") is None
        assert store.receipt("r-2") is not None
        assert store.delete_old_receipts(earlier) == 0
        touched = store.impact(told.fact_id, AuditReader(VIEW, "demo/lead-0"), limit=9)
        assert touched is not None
        assert [recall.receipt for recall in touched.recalls] == ["r-2"]
