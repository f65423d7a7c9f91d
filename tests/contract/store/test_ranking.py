"""What recall returns beside the words of a question, the same for every store."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from knowledge_client.models import Ref, Source
from knowledge_service.domain.access_control import View
from knowledge_service.domain.recall_filters import Filters
from knowledge_service.ports import NewLink, Search, Store
from knowledge_service.search.ranking import weights
from knowledge_service.search.snapshot import MOST_LINKED
from tests.contract.store.conftest import Time
from tests.knowledge_builders import AGENT, LEAD, OTHER, PERSON, TEAM, new_fact

VIEW = View(LEAD)
MAY = datetime(2023, 5, 7, 14, tzinfo=UTC)
INFLUENCED = ("x_recency", "x_confidence", "x_usefulness", "x_bound")
"""The factors that callers can influence by confirming, using and dating facts."""


def found(store: Store, query: str, **fields: Any) -> list[str]:
    filters = Filters(**fields.pop("filters", {}))
    search = Search(VIEW, query, fields.pop("limit", 10), filters=filters, **fields)
    return [hit.fact.content for hit in store.search(search).hits]


def why(store: Store, query: str, fact_id: str, **fields: Any) -> tuple[str, str]:
    filters = Filters(**fields.pop("filters", {}))
    limit = fields.pop("limit", 10)
    search = Search(VIEW, query, limit, filters=filters, why_not=(fact_id,), **fields)
    explanation = store.search(search).explanations[fact_id]
    return explanation.stage, explanation.why


def talk(store: Store, *lines: str, **fields: Any) -> None:
    store.remember([new_fact(line, **fields) for line in lines], actor=AGENT)


CHAT = (
    "Anna: Good morning!",
    "Bruno: Where did you go on holiday?",
    "Anna: To Lisbon, with my cousin.",
    "Bruno: I painted the kitchen instead.",
)


@pytest.mark.parametrize(
    "fields",
    [
        {"tags": ("session_1",)},
        {"source": Source(type="import", refs=(Ref(type="session", id="s1"),), actor="x")},
        {"about": "conversation-1"},
        {"valid_from": MAY},
        {},
    ],
    ids=["by tag", "by reference", "by what it is about", "by day", "by speakers alone"],
)
def test_answer_is_found_by_the_question_before_it(store: Store, fields: dict[str, Any]) -> None:
    talk(store, *CHAT, **fields)
    assert "Anna: To Lisbon, with my cousin." in found(store, "holiday")[:2]


def test_answer_comes_before_the_turn_that_only_asks(store: Store) -> None:
    talk(
        store,
        "Anna: I think about going back to school.",
        "Bruno: What would you study?",
        "Anna: Marine biology, since I was nine.",
        tags=("session_1",),
    )
    turns = found(store, "Which subject would Anna study at school?")
    answer, question = "Anna: Marine biology, since I was nine.", "Bruno: What would you study?"
    assert turns.index(answer) < turns.index(question)


@pytest.mark.parametrize(
    "way",
    [
        lambda name, text: {"content": f"{name}: {text}"},
        lambda name, text: {"content": f"[8 May, 2023 1:56 pm] {name}: {text}"},
        lambda name, text: {"content": f'{name} said, "{text}"'},
        lambda name, text: {"content": text, "subject": name},
        lambda name, text: {"content": text, "title": name},
        lambda name, text: {"content": text, "tags": (name, "s1")},
        lambda name, text: {"content": text, "data": {"speaker": name, "session": 1}},
    ],
    ids=["in front", "after a date", "reported", "subject", "title", "tag", "data"],
)
def test_answer_is_found_however_turns_are_told(
    store: Store, way: Callable[[str, str], dict[str, Any]]
) -> None:
    turns = [line.split(": ") for line in (*CHAT, "Anna: The cat sleeps.", "Bruno: So do I.")]
    store.remember([new_fact(**way(*turn)) for turn in turns], actor=AGENT)
    assert "To Lisbon, with my cousin." in found(store, "Where was Anna on holiday?")[0]


def test_turn_of_another_session_is_not_beside(store: Store) -> None:
    talk(store, "Bruno: Where did you go on holiday?", tags=("session_1",))
    talk(store, "Anna: The cat sleeps.", tags=("session_2",))
    assert found(store, "holiday") == ["Bruno: Where did you go on holiday?"]


def test_facts_that_nothing_ties_together_are_not_beside_each_other(store: Store) -> None:
    talk(store, "the holiday calendar is in the wiki", "backups run at night")
    assert found(store, "holiday") == ["the holiday calendar is in the wiki"]


def test_words_of_the_one_asked_about_come_first(store: Store) -> None:
    talk(store, "Bruno: Anna, I love hiking in Peru", "Anna: I love hiking in Chile")
    assert found(store, "Where does Anna love hiking?")[0].startswith("Anna:")
    assert found(store, "Where does Bruno love hiking?")[0].startswith("Bruno:")


def test_day_that_a_question_names_is_found_by_when_a_fact_holds(store: Store) -> None:
    talk(store, "the registry was down", valid_from=MAY)
    talk(store, "the registry was slow", valid_from=MAY + timedelta(days=90))
    for question in ("on 7 May 2023", "what happened on May 7th, 2023", "2023-05-07"):
        assert found(store, question) == ["the registry was down"], question
    assert found(store, "the registry in August 2023")[0] == "the registry was slow"
    now = MAY + timedelta(days=1)
    assert found(store, "the registry yesterday", now=now)[0] == "the registry was down"


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("What did Anna paint on 6 May 2023?", "Anna: Yesterday I painted the door"),
        ("What did Anna paint in summer 2023?", "Anna: I painted the fence"),
        ("What did Anna paint before May 2023?", "Anna: I painted the wall"),
    ],
)
def test_day_that_a_turn_speaks_of_is_understood(store: Store, question: str, first: str) -> None:
    talk(store, "Anna: I painted the fence", valid_from=MAY + timedelta(days=60))
    talk(store, "Anna: I painted the wall", valid_from=MAY - timedelta(days=60))
    talk(store, "Anna: Yesterday I painted the door", valid_from=MAY)
    assert found(store, question)[0] == first


def test_words_of_somebody_else_come_after_those_of_the_one_asked_about(store: Store) -> None:
    talk(store, "Bruno: I love hiking in all of Chile", "Anna: I love hiking in all of Peru")
    talk(store, "Bruno: you love hiking in Ecuador, do you")
    search = Search(VIEW, "Where does Anna love hiking?", 10)
    factors = {hit.fact.content[:10]: hit.parts["x_speaker"] for hit in store.search(search).hits}
    own, third_person = (
        weights.SHIPPED.factors[f"x_speaker.{speaker}"] for speaker in ("own", "other")
    )
    assert own > 1 > third_person
    assert factors == {"Anna: I lo": own, "Bruno: you": third_person, "Bruno: I l": third_person}
    search = Search(VIEW, "Where does Celia love hiking?", 10)
    assert ["x_speaker" in hit.parts for hit in store.search(search).hits] == [False] * 3


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("How many trees did Anna plant?", "Anna: I planted trees by the dozen, behind the fence"),
        ("Who helped to plant the trees?", "Anna: when I planted trees, my aunt Vera held them"),
        ("Where did Anna plant trees?", "Anna: I planted trees in Leith, and I am proud of it"),
        ("Why did Anna plant trees?", "Anna: I planted trees because it is too hot here"),
    ],
)
def test_turn_with_the_sort_of_thing_that_is_asked_for_comes_first(
    store: Store, question: str, first: str
) -> None:
    talk(store, "Anna: I planted trees, and what a day it was", first)
    best, runner_up = store.search(Search(VIEW, question, 10)).hits
    assert best.fact.content == first
    assert best.parts["x_wanted"] == weights.SHIPPED.factors["x_wanted.talk"] > 1
    assert "x_wanted" not in runner_up.parts


def test_turn_that_hardly_says_anything_comes_after_one_that_does(store: Store) -> None:
    talk(store, "Bruno: Trees, wonderful!", "Anna: behind the house we have got trees from Spain")
    best, runner_up = store.search(Search(VIEW, "trees", 10)).hits
    assert best.fact.content.startswith("Anna:")
    assert "x_short" not in best.parts
    assert runner_up.parts["x_short"] == weights.SHIPPED.factors["x_short"] < 1


@pytest.mark.parametrize("kind", ["run", "mission"])
def test_short_fact_of_a_run_is_no_turn_that_hardly_says_anything(store: Store, kind: str) -> None:
    run = Source(type="mission_extraction", refs=(Ref(type=kind, id="m-1"),), actor="x")
    talk(store, "Pin numpy below 2.0", "etcd listens on 2379", source=run)
    for question in ("numpy", "etcd"):
        best = store.search(Search(VIEW, question, 10)).hits[0]
        assert question in best.fact.content
        assert "x_short" not in best.parts


def test_what_is_said_two_turns_before_its_words_come_is_found(store: Store) -> None:
    talk(
        store,
        "Anna: Guess where I am off to, with my cousin: to Porto!",
        "Bruno: Lovely, how long will you be there?",
        "Anna: Nine days, I needed a holiday badly and so did she.",
        tags=("session_1",),
    )
    assert "Anna: Guess where I am off to, with my cousin: to Porto!" in found(store, "holiday")


def test_turn_that_only_asks_gains_nothing_from_what_was_said_before(store: Store) -> None:
    said = (
        "Anna: I was on holiday in Peru", "Bruno: A holiday with whom?", "Anna: With my cousin Eva."
    )  # fmt: skip
    talk(store, *said, tags=("session_1",))
    parts = {hit.fact.content: hit.parts for hit in store.search(Search(VIEW, "holiday", 10)).hits}
    assert parts["Anna: With my cousin Eva."]["context"] > 0
    assert "context" not in parts["Bruno: A holiday with whom?"]


HOLIDAY = "Anna: We spent the holiday in Tromso, at last."
REINDEER = "Bruno: Reindeer came close to us on the second day of Tromso."


@pytest.fixture
def two_talks(store: Store) -> Store:
    """Return a store in which two turns name a place, and only one of them what it was for."""
    talk(store, HOLIDAY, "Bruno: It must have been dark.", tags=("session_1",))
    talk(store, "Anna: The kitchen is green.", "Bruno: Lovely.", tags=("session_2",))
    talk(store, "Anna: Work is dull.", REINDEER, "Anna: Were they tame?", tags=("session_3",))
    return store


def test_turn_that_shares_a_rare_word_with_the_best_one_follows_it(two_talks: Store) -> None:
    best, *others = found(two_talks, "How was the holiday?")
    assert best == HOLIDAY
    assert REINDEER in others
    assert "Anna: The kitchen is green." not in others


def test_turn_of_the_second_hop_says_which_word_led_to_it(two_talks: Store) -> None:
    search = Search(VIEW, "How was the holiday?", 10, explain=True)
    hits = {hit.fact.content: hit for hit in two_talks.search(search).hits}
    assert hits[REINDEER].parts["=tromso"] > 0
    assert "=tromso" not in hits[HOLIDAY].parts
    for hit in hits.values():
        terms = [value for name, value in hit.parts.items() if name.startswith("=")]
        assert hit.parts["bm25"] == pytest.approx(sum(terms), abs=1e-5)


def test_second_hop_starts_from_turns_of_conversations_alone(store: Store) -> None:
    talk(store, "the holiday list is kept in Tromso", "the Tromso office opened twice")
    assert found(store, "holiday") == ["the holiday list is kept in Tromso"]


def test_synonym_finds_less_than_the_word_itself(store: Store) -> None:
    talk(store, "the node was rebooted twice", "the node was restarted twice")
    assert found(store, "who restarted it") == [
        "the node was restarted twice",
        "the node was rebooted twice",
    ]


def test_superseded_fact_is_recalled_only_as_of_then(store: Store, time: Time) -> None:
    keyed = {"subject": "orders-db", "predicate": "version"}
    early = MAY - timedelta(days=365)
    talk(store, "the orders database runs 14", valid_from=early, **keyed)
    talk(store, "the orders database runs 16", valid_from=MAY, **keyed)
    assert found(store, "orders database") == ["the orders database runs 16"]
    past_moment = {"valid_at": MAY - timedelta(days=30)}
    assert found(store, "orders database", filters=past_moment) == ["the orders database runs 14"]


def test_fact_of_a_nearer_scope_overrides_the_farther_one_on_its_key(store: Store) -> None:
    keyed = {"subject": "build", "predicate": "runs on"}
    talk(store, "the build runs on Java 21", scope=TEAM, **keyed)
    assert found(store, "what does the build run on") == ["the build runs on Java 21"]
    talk(store, "here it is Kotlin that compiles", scope=LEAD, **keyed)
    (far,) = store.remember([new_fact("the build runs on Java 21", TEAM, **keyed)], actor=AGENT)
    assert "the build runs on Java 21" not in found(store, "what does the build run on")
    assert why(store, "what does the build run on", far.fact_id)[0] == "overridden"


def test_what_says_the_same_is_returned_once_unless_a_number_differs(store: Store) -> None:
    text = "the proxy closes idle connections of all the clients in this zone after 60 seconds"
    talk(store, text, text.replace("the clients", "clients"), text.replace("60", "90"))
    assert found(store, "when does the proxy close idle connections") == [
        text,
        text.replace("60", "90"),
    ]


def test_what_the_best_is_linked_with_comes_along(store: Store) -> None:
    (remembered,) = store.remember([new_fact("pods of the shop crash at night")], actor=PERSON)
    corrected = store.correct(
        remembered.fact_id, "more is known", "pods of the shop crash at noon", actor=PERSON
    )
    assert corrected.replacement_id
    # A superseded fact is linked, and is not recalled for that.
    assert found(store, "pods crash") == ["pods of the shop crash at noon"]


def test_fact_with_many_links_brings_the_oldest_of_each_direction(store: Store) -> None:
    matching = [new_fact("crashing pods"), new_fact("pods crash in every night of the whole year")]
    hub, other = [result.fact_id for result in store.remember(matching, actor=PERSON)]
    names = [f"guest{number}" for number in range(2 * MOST_LINKED + 2)]
    results = store.remember([new_fact(name, kind="pitfall") for name in names], actor=PERSON)
    guests = [result.fact_id for result in results]
    (last,) = store.remember([new_fact("wednesday")], actor=PERSON)
    # Newest first, so that the order of the links differs from that of the facts.
    ends = [(guest, hub) for guest in guests[MOST_LINKED::-1]]
    ends += [(hub, guest) for guest in guests[: -MOST_LINKED - 2 : -1]]
    ends.append((last.fact_id, other))
    for number, (from_id, to_id) in enumerate(ends):
        types = ("related", "derived_from") if number % 2 else ("related",)
        for link_type in types:
            store.link(NewLink(from_id, to_id, link_type), VIEW, actor=PERSON)

    recalled = found(store, "crashing pods", limit=200)

    left_out = {names[MOST_LINKED], names[-1]}
    assert sorted(recalled) == sorted(
        {*(fact.content for fact in matching), *names, "wednesday"} - left_out
    )


@pytest.mark.parametrize("is_hub_source", [True, False], ids=["from the fact", "to the fact"])
@pytest.mark.parametrize("is_known_at", [True, False], ids=["as it was known", "now"])
def test_match_keeps_its_link_to_a_fact_that_many_older_facts_are_linked_with(
    store: Store, time: Time, is_hub_source: bool, is_known_at: bool
) -> None:
    (hub,) = store.remember([new_fact("crashing pods")], actor=PERSON)
    guests = store.remember(
        [new_fact(f"guest{number}", kind="pitfall") for number in range(MOST_LINKED + 1)],
        actor=PERSON,
    )
    (match,) = store.remember([new_fact("pods in every harbour of the whole world")], actor=PERSON)
    for result in (*guests, match):
        ends = (hub.fact_id, result.fact_id)
        from_id, to_id = ends if is_hub_source else ends[::-1]
        store.link(NewLink(from_id, to_id, "related"), VIEW, actor=PERSON)

    filters = Filters(known_at=time.now if is_known_at else None)
    hits = store.search(Search(VIEW, "crashing pods", 10, filters=filters)).hits

    parts_by_content = {hit.fact.content: hit.parts for hit in hits}
    parts = parts_by_content["pods in every harbour of the whole world"]
    assert parts["links"] == 0.3 * parts_by_content["crashing pods"]["bm25"]


def test_why_a_fact_was_not_recalled_is_told_for_every_stage(store: Store) -> None:
    # Names without a vector in any table, so that the facts match equally well.
    names = [f"zq{letter}v" for letter in "abcdefghijkl"]
    remembered = store.remember(
        [new_fact(f"the {name} gate is painted", kind="pitfall") for name in names],
        actor=AGENT,
    )
    (other_fact,) = store.remember([new_fact("nothing of the kind")], actor=AGENT)
    first, last = remembered[0].fact_id, remembered[-1].fact_id
    assert why(store, "painted gate", first) == ("returned", "it is at position 1")
    assert why(store, "painted gate", last) == ("limit", "it is at position 12, after the limit")
    assert why(store, "painted gate", other_fact.fact_id) == (
        "no-match", "it shares no word with the question",
    )  # fmt: skip
    kinds = {"filters": {"kinds": ("fact",)}}
    assert why(store, "painted gate", first, **kinds) == (
        "filters", "its kind pitfall is not among fact",
    )  # fmt: skip
    store.correct(first, "wrong", None, actor=PERSON)
    assert why(store, "painted gate", first) == ("filters", "it is retracted")


def test_why_says_nothing_of_what_is_invisible(store: Store) -> None:
    (remembered,) = store.remember([new_fact("the gate is painted", OTHER)], actor=AGENT)
    search = Search(VIEW, "gate", 10, why_not=(remembered.fact_id, "no-such-fact"))
    assert store.search(search).explanations == {}


def test_score_is_its_arms_times_its_factors(store: Store) -> None:
    talk(store, *CHAT, valid_from=MAY, confidence=0.9)
    for hit in store.search(Search(VIEW, "When did Anna paint the kitchen?", 10, now=MAY)).hits:
        arms = sum(v for name, v in hit.parts.items() if name[:2] != "x_")
        factors = {name: value for name, value in hit.parts.items() if name.startswith("x_")}
        influenced = math.prod(factors.get(name, 1) for name in INFLUENCED)
        assert 0.8 - 1e-9 <= influenced <= 1.25 + 1e-9
        assert hit.score == pytest.approx(arms * math.prod(factors.values()))
