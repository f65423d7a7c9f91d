"""A scope without a KnowledgeScope holds a bounded number of live facts of agents."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge_client.models import ScopeConfig
from knowledge_service.domain.access_control import View
from knowledge_service.domain.facts import NewFact
from knowledge_service.errors import QuotaExceeded
from knowledge_service.extraction import job
from knowledge_service.ports import ActionContext, Listing, Store
from knowledge_service.store.sqlite.store import SqliteStore
from tests.fakes.store import MemoryStore
from tests.knowledge_builders import AGENT, LEAD, OPERATOR, PERSON, TEAM, new_fact, run_in, run_key
from tests.writer_gate import held_writer, wait_for_queue

BOUND = 3


@pytest.fixture(params=["fake", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    memory_store: Store = (
        MemoryStore(undeclared_facts=BOUND)
        if request.param == "fake"
        else SqliteStore(tmp_path / "knowledge.db", undeclared_facts=BOUND)
    )
    yield memory_store
    memory_store.close()


def facts(count: int, first: int = 0, scope: str = TEAM) -> list[NewFact]:
    return [new_fact(f"The build needs Java {n}", scope=scope) for n in range(first, first + count)]


def live(store: Store, scope: str = TEAM) -> int:
    matching_facts = store.list_facts(Listing(View(LEAD), 100, scopes=(scope,), lifecycle="live"))
    return len(matching_facts)


def refuse(store: Store, new: list[NewFact]) -> QuotaExceeded:
    with pytest.raises(QuotaExceeded) as caught:
        store.remember(new, actor=AGENT)
    return caught.value


def test_agent_is_refused_beyond_the_bound_and_told_what_to_do(store: Store) -> None:
    store.remember(facts(BOUND), actor=AGENT)
    refusal = refuse(store, facts(1, BOUND))
    assert refusal.detail == (
        f"scope {TEAM} holds 3 live facts, the maximum for a scope without a KnowledgeScope;"
        " declare one with spec.retention.maxFacts, or retract facts that are out of date"
    )
    assert refusal.retry_after_s == 60
    assert live(store) == BOUND


def test_batch_that_does_not_fit_stores_nothing(store: Store) -> None:
    refuse(store, facts(BOUND + 1))
    assert live(store) == 0


def test_facts_with_keys_and_equals_are_counted_too(store: Store) -> None:
    keyed = [
        new_fact(f"Java {n}", subject=f"build {n}", predicate="needs") for n in range(BOUND + 1)
    ]
    refuse(store, keyed)
    assert live(store) == 0


def test_full_scope_still_takes_repeats_and_successors(store: Store) -> None:
    store.remember(facts(BOUND - 1), actor=AGENT)
    old = new_fact("Java 21", subject="build", predicate="needs")
    store.remember([old], actor=AGENT)
    assert store.remember(facts(1), actor=AGENT)[0].status == "confirmed"
    new = new_fact("Java 25", subject="build", predicate="needs")
    (successor,) = store.remember([new], actor=AGENT)
    assert len(successor.superseded) == 1
    corrected = store.correct(successor.fact_id, "newer", "Java 26", actor=AGENT)
    assert corrected.replacement_id
    assert live(store) == BOUND


def test_another_scope_has_room_of_its_own(store: Store) -> None:
    store.remember(facts(BOUND), actor=AGENT)
    store.remember(facts(BOUND, scope=LEAD), actor=AGENT)
    assert live(store, LEAD) == BOUND


def test_retracted_facts_make_room_and_do_not_come_back_beyond_the_bound(store: Store) -> None:
    first, *_ = store.remember(facts(BOUND), actor=AGENT)
    context = ActionContext(AGENT, "wrong")
    store.retract(first.fact_id, context)
    store.remember(facts(1, BOUND), actor=AGENT)
    for bring_back in (store.restore, store.undo):
        with pytest.raises(QuotaExceeded, match="holds 3 live facts"):
            bring_back(first.fact_id, context)
    assert live(store) == BOUND


def test_declared_scope_has_its_own_bound_instead(store: Store) -> None:
    store.put_scope(TEAM, ScopeConfig(), actor=OPERATOR)
    store.remember(facts(BOUND + 1), actor=AGENT)
    assert live(store) == BOUND + 1


def test_people_and_the_operator_are_not_bounded(store: Store) -> None:
    store.remember(facts(BOUND), actor=PERSON)
    store.remember(facts(BOUND, BOUND), actor=OPERATOR)
    assert live(store) == 2 * BOUND


def test_extraction_leaves_out_what_does_not_fit_and_says_why(store: Store) -> None:
    store.put_run("r", run_in(outcome="Failed"), actor=OPERATOR)
    store.accept_extraction(run_key("r"), 7, actor=OPERATOR)
    store.remember(facts(BOUND), actor=AGENT)
    extraction = store.finish_extraction(run_key("r"), facts(2, BOUND - 1), None, actor=job.ACTOR)
    assert (len(extraction.facts), extraction.state) == (1, "done")
    assert extraction.reason is not None
    assert extraction.reason.startswith(f"1 left out: scope {TEAM} holds 3 live facts")


def test_calls_that_share_a_commit_share_the_bound(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "knowledge.db", undeclared_facts=BOUND)
    refusals: list[QuotaExceeded] = []

    def remember(number: int) -> None:
        try:
            store.remember(facts(1, number), actor=AGENT)
        except QuotaExceeded as exc:
            refusals.append(exc)

    calls = [threading.Thread(target=remember, args=(n,)) for n in range(10)]
    with held_writer(store):
        for call in calls:
            call.start()
        wait_for_queue(store, len(calls))
    for call in calls:
        call.join()
    assert len(refusals) == 10 - BOUND
    assert live(store) == BOUND
    store.close()
