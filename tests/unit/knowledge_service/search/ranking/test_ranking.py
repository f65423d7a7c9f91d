"""What each ranking feature adds to a score: sentence and case."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest

from knowledge_service.search.query import parser
from knowledge_service.search.ranking import ranking
from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.search.ranking.ranking import Evidence, OutcomeCounts, Ranked
from knowledge_service.search.ranking.weights import Weights
from tests.unit.knowledge_service.search.candidate_rows import NOW, candidate, microseconds

MAY_7 = microseconds(datetime(2023, 5, 7, tzinfo=UTC))
MAY_8 = microseconds(datetime(2023, 5, 8, tzinfo=UTC))
SESSION = '["session_3"]'
ROUND = Weights(
    additive={
        "context.previous": 0.6, "context.second_previous": 0.4, "context.next": 0.2,
        "context.second_next": 0.2, "context.answer": 0.8, "context.second_answer": 0.5,
        "context.run": 0.5, "context.observation": 0.25, "word_vectors": 0.0,
    },
    factors={
        "x_phrase": 1.04, "x_date": 1.25, "x_when": 1.15, "x_wanted.talk": 1.2,
        "x_wanted.fact": 1.15, "x_speaker.own": 1.25, "x_speaker.other": 0.8, "x_short": 0.8,
    },
    digest="round",
)  # fmt: skip


def ago(days: int) -> int:
    return microseconds(NOW - timedelta(days=days))


def rank(question: str, rows: list[Candidate], size: int = 48, **evidence: object) -> list[Ranked]:
    values: dict[str, object] = {"text": {row.number: 1.0 for row in rows}}
    gathered = Evidence({row.number: row for row in rows}, **(values | evidence))  # type: ignore[arg-type]
    return ranking.rank(parser.parse(question, NOW), gathered, NOW, size=size, weights=ROUND)


def parts_of(ranked: list[Ranked], number: int = 1) -> dict[str, float]:
    return next(result.parts for result in ranked if result.number == number)


AGE = {
    "a new fact gains 2.5 percent": ("what broke?", {}, 1.025),
    "a fact of one half-life is neutral": ("what broke?", {"recorded_us": ago(90)}, 1.0),
    "a fact of two half-lives loses": ("what broke?", {"recorded_us": ago(180)}, 0.9875),
    "a question about now weighs age more": ("what is broken now?", {}, 1.2),
    "a question about now weighs old facts less": (
        "what is currently broken?", {"recorded_us": ago(180)}, 0.9
    ),
    "age counts from when a fact holds": (
        "what broke?", {"recorded_us": ago(0), "valid_from_us": ago(90)}, 1.0
    ),
    "a fact of the future is as new as one of now": (
        "what broke?", {"recorded_us": ago(-90)}, 1.025
    ),
}  # fmt: skip


@pytest.mark.parametrize(("question", "columns", "value"), AGE.values(), ids=AGE)
def test_age_factor(question: str, columns: dict[str, object], value: float) -> None:
    parts = parts_of(rank(question, [candidate(**columns)]))
    assert parts["x_recency"] == pytest.approx(value)


FACTORS = {
    "full confidence gains": ("why?", {"confidence": 1.0}, "x_confidence", 1.1),
    "no confidence loses": ("why?", {"confidence": 0.0}, "x_confidence", 0.9),
    "default confidence counts nothing": ("why?", {"confidence": 0.5}, "x_confidence", None),
    "a fact that no longer holds loses": ("why?", {"valid_until_us": ago(0)}, "x_validity", 0.8),
    "an expired fact loses less": ("why?", {"expires_us": ago(1)}, "x_validity", 0.9),
    "a fact that ended and expired loses once": (
        "why?", {"valid_until_us": ago(1), "expires_us": ago(1)}, "x_validity", 0.8
    ),
    "a fact that still holds loses nothing": (
        "why?", {"valid_until_us": ago(-1), "expires_us": ago(-1)}, "x_validity", None
    ),
    "a phrase of the question gains": (
        "checkout timeout", {"content": "a Checkout Timeout again"}, "x_phrase", 1.04
    ),
    "each phrase gains": (
        "checkout timeout error", {"content": "checkout timeout error"}, "x_phrase", 1.04**2
    ),
    "no more than three phrases gain": (
        "red green blue black white", {"content": "red green blue black white"}, "x_phrase", 1.04**3
    ),
    "words apart are no phrase": (
        "checkout timeout", {"content": "timeout at checkout"}, "x_phrase", None
    ),
    "a fact of the day gains": (
        "what broke on 7 May 2023?", {"valid_from_us": MAY_7}, "x_date", 1.25
    ),
    "a fact of another day gains nothing": (
        "what broke on 7 May 2023?", {"valid_from_us": MAY_8}, "x_date", None
    ),
    "yesterday counts from the day of the fact": (
        "what broke on 7 May 2023?",
        {"valid_from_us": MAY_8, "content": "it broke yesterday"}, "x_date", 1.25,
    ),
    "the day before the words of a speaker counts": (
        "what broke on 7 May 2023?", {"content": "[7 May 2023] Anna: the pod"}, "x_date", 1.25
    ),
    "a fact without a day is of its recording": (
        "what broke in 2023?", {"recorded_us": MAY_7}, "x_date", 1.25
    ),
    "a fact outside a conversation gains nothing by a time": (
        "when did it break?", {"content": "it broke last week"}, "x_when", None
    ),
    "a turn with a time gains when the question asks for one": (
        "when did it break?", {"content": "Anna: it broke last week", "tags_json": SESSION},
        "x_when", 1.15,
    ),
    "a turn with a time gains nothing otherwise": (
        "why did it break?", {"content": "Anna: it broke last week", "tags_json": SESSION},
        "x_when", None,
    ),
    "the expected answer type gains": (
        "how many pods?", {"content": "12 of them"}, "x_wanted", 1.15
    ),
    "a turn with the expected answer type gains by its own weight": (
        "how many pods?", {"content": "Anna: 12 of them, and I mean all the pods that we run",
        "tags_json": SESSION}, "x_wanted", 1.2,
    ),
    "another text gains nothing": ("how many pods?", {"content": "all"}, "x_wanted", None),
    "a turn of few words loses": (
        "why?", {"content": "Anna: it broke.", "tags_json": SESSION}, "x_short", 0.8
    ),
    "a fact of few words outside a conversation loses nothing": (
        "why?", {"content": "it broke"}, "x_short", None
    ),
}  # fmt: skip


@pytest.mark.parametrize(("question", "columns", "part", "value"), FACTORS.values(), ids=FACTORS)
def test_factor_of_a_fact(
    question: str, columns: dict[str, object], part: str, value: float | None
) -> None:
    parts = parts_of(rank(question, [candidate()._replace(**columns)]))
    assert parts.get(part) == (None if value is None else pytest.approx(value))


SPEAKERS = {
    "the person in question gains": ("Anna: I like tea", 1.25),
    "somebody else loses": ("Bruno: tea is fine", 0.8),
    "somebody who speaks to them loses as much": ("Bruno: do you like tea", 0.8),
    "a text without a speaker is neutral": ("tea is fine", None),
}


@pytest.mark.parametrize(("content", "value"), SPEAKERS.values(), ids=SPEAKERS)
def test_speaker_factor(content: str, value: float | None) -> None:
    rows = [candidate(content), candidate("Anna: hello there", 2)]
    assert parts_of(rank("What does Anna like?", rows)).get("x_speaker") == value


def test_nobody_loses_if_the_person_in_question_says_nothing() -> None:
    assert "x_speaker" not in parts_of(
        rank("What does Anna like?", [candidate("Bruno: tea is fine")])
    )


ARMS = {
    "the text score is the first arm": ({"text": {1: 2.5}}, {"bm25": 2.5}),
    "a fact without a match has a text score of 0": ({"text": {}}, {"bm25": 0.0}),
    "a link gains a share of the best linked fact": (
        {"text": {2: 3.0, 3: 5.0}, "linked": {1: [2, 3]}}, {"bm25": 0.0, "links": 1.5}
    ),
    "a link to a fact without a match gains nothing": (
        {"text": {1: 1.0}, "linked": {1: [2]}}, {"bm25": 1.0, "links": 0.0}
    ),
    "meaning is measured by the best text": (
        {"text": {2: 5.0}, "similarities": {1: 0.5}}, {"bm25": 0.0, "meaning": 1.5}
    ),
    "meaning alone is measured by 1": (
        {"text": {}, "similarities": {1: 0.5}}, {"bm25": 0.0, "meaning": 0.3}
    ),
}  # fmt: skip


@pytest.mark.parametrize(("evidence", "arms"), ARMS.values(), ids=ARMS)
def test_arms_of_a_fact(evidence: dict[str, object], arms: dict[str, float]) -> None:
    rows = [candidate(number=number) for number in (1, 2, 3)]
    gathered = Evidence({row.number: row for row in rows}, **({"text": {}} | evidence))  # type: ignore[arg-type]
    groups = ranking.group_candidates(gathered, use_conversations=True)
    parts = ranking.sum_features(parser.parse("why?", NOW), gathered, groups, ROUND)[1]
    assert parts == pytest.approx(arms)


CONTEXT = {
    "the turn before gives most": ([1.0, 0.0], 1, 0.6),
    "the second turn before gives less": ([1.0, 0.0, 0.0], 2, 0.4),
    "the turn after gives little": ([0.0, 1.0], 0, 0.2),
    "the second turn after gives as much": ([0.0, 0.0, 1.0], 0, 0.2),
    "the third turn before gives nothing": ([1.0, 0.0, 0.0, 0.0], 3, 0.0),
    "turns add up": ([1.0, 2.0, 0.0, 3.0], 2, 0.4 + 1.2 + 0.6),
}


@pytest.mark.parametrize(("texts", "ordinal", "value"), CONTEXT.values(), ids=CONTEXT)
def test_neighbours_of_a_turn(texts: list[float], ordinal: int, value: float) -> None:
    ordinals = range(len(texts))
    rows = [candidate("Anna: all is well", n, tags_json=SESSION) for n in ordinals]
    ranked = rank(
        "why?", rows,
        text={n: text for n, text in enumerate(texts) if text},
        ordinals={n: n for n in ordinals},
    )  # fmt: skip
    context = next((r.parts["context"] for r in ranked if r.number == ordinal), 0.0)
    assert context == pytest.approx(value)


CONVERSATIONS = {
    "an answer gains more from the question before it": (
        "Anna: what broke the build today?", "Bruno: the cache of the old builder", 0.8
    ),
    "facts without a speaker gain half": ("what broke it", "the cache broke it", 0.3),
    "a turn that only asks gains nothing": ("Anna: it broke.", "Bruno: why did it break?", None),
}  # fmt: skip


@pytest.mark.parametrize(
    ("content", "next_content", "value"), CONVERSATIONS.values(), ids=CONVERSATIONS
)
def test_context_depends_on_the_turns(content: str, next_content: str, value: float | None) -> None:
    rows = [
        candidate(content, 1, tags_json=SESSION),
        candidate(next_content, 2, tags_json=SESSION),
    ]
    parts = parts_of(rank("broke", rows, text={1: 1.0, 2: 0.001}, ordinals={1: 7, 2: 8}), 2)
    assert parts.get("context") == (None if value is None else pytest.approx(value))


GROUPS = {
    "a turn": ({"content": "Anna: the cache broke it", "tags_json": SESSION}, ranking.TALK),
    "a fact of a session without a speaker": ({"tags_json": SESSION}, ranking.RUN),
    "a fact of a run": ({"source_json": '{"refs":[{"id":"n","type":"run"}]}'}, ranking.RUN),
    "an observation": ({"about": "builder"}, ranking.OBSERVATION),
    "any other fact": ({}, ranking.FACT),
}


@pytest.mark.parametrize(("columns", "kind"), GROUPS.values(), ids=GROUPS)
def test_kind_of_a_candidate(columns: dict[str, object], kind: str) -> None:
    evidence = Evidence({1: candidate("the cache broke it")._replace(**columns)}, {})
    groups = ranking.group_candidates(evidence, use_conversations=True)
    assert groups.of[1].kind == kind


def test_observation_gains_less_from_its_neighbours_than_a_fact_of_a_run() -> None:
    texts = {1: 1.0, 2: 0.001}
    contexts = []
    for columns in ({"source_json": '{"refs":[{"id":"n","type":"run"}]}'}, {"about": "builder"}):
        rows = [candidate("it broke", n)._replace(**columns) for n in (1, 2)]
        parts = parts_of(rank("broke", rows, text=texts, ordinals={1: 7, 2: 8}), 2)
        contexts.append(parts["context"])
    assert contexts == pytest.approx([0.5 * 0.6, 0.25 * 0.6])


def test_what_others_can_change_stays_within_its_bounds_in_all() -> None:
    rows = [
        candidate("it is broken", 1, confidence=1.0),
        candidate("it is broken", 2, confidence=0.0, recorded_us=ago(9000)),
    ]
    ranked = rank("what is broken now?", rows)
    for number, uses, bound in ((1, OutcomeCounts(96, 0), 1.25), (2, OutcomeCounts(0, 96), 0.8)):
        evidence = Evidence({row.number: row for row in rows}, {}, uses={number: uses})
        result = next(
            each for each in ranking.apply_usefulness(ranked, evidence) if each.number == number
        )
        influenced = ("x_recency", "x_confidence", "x_usefulness", "x_bound")
        assert math.prod(result.parts[part] for part in influenced) == pytest.approx(bound)
        assert result.score == pytest.approx(bound)


def test_question_about_now_prefers_the_newer_of_two_old_facts() -> None:
    rows = [
        candidate("the shop runs on a cluster of three", 1, recorded_us=ago(1200)),
        candidate("the shop runs on a cluster of nine", 2, recorded_us=ago(900)),
        candidate("a cluster", 3, recorded_us=ago(1)),
    ]
    text = {1: 5.0, 2: 4.0, 3: 1.0}
    now = rank("what does the shop run on now?", rows, text=text)
    assert [result.number for result in now] == [2, 1, 3]
    assert parts_of(now, 2)["x_recency"] == pytest.approx(1.2)
    assert parts_of(now, 1)["x_recency"] == pytest.approx(0.8)
    assert [result.number for result in rank("what does the shop run on?", rows, text=text)] == [
        1, 2, 3,
    ]  # fmt: skip


def test_facts_of_one_time_keep_their_age_in_a_question_about_now() -> None:
    rows = [candidate("it is broken", n, recorded_us=ago(90)) for n in (1, 2)]
    ranked = rank("what is broken now?", rows)
    assert [result.parts["x_recency"] for result in ranked] == pytest.approx([1.0, 1.0])


def test_bound_of_a_score_without_outcomes_is_a_part_of_it() -> None:
    row = candidate("it is broken", confidence=1.0)
    (result,) = rank("what is broken now?", [row])
    assert result.score == pytest.approx(1.25)
    assert result.parts["x_bound"] == pytest.approx(1.25 / (1.2 * 1.1))


ORDER = {
    "the better text comes first": ({1: 1.0, 2: 2.0}, 48, [2, 1]),
    "equal scores are ordered by number": ({2: 1.0, 1: 1.0, 3: 1.0}, 48, [1, 2, 3]),
    "no more than the size are ranked": ({1: 1.0, 2: 3.0, 3: 2.0}, 2, [2, 3]),
    "a score of 0 is left out": ({1: 0.0, 2: 1.0}, 48, [2]),
}


@pytest.mark.parametrize(("text", "size", "numbers"), ORDER.values(), ids=ORDER)
def test_order_of_results(text: dict[int, float], size: int, numbers: list[int]) -> None:
    rows = [candidate(number=number) for number in text]
    assert [ranked.number for ranked in rank("works", rows, size, text=text)] == numbers


def test_score_is_the_sum_of_arms_times_the_factors() -> None:
    row = candidate("12 pods broke last week", confidence=1.0)
    (result,) = rank("how many pods broke?", [row], linked={1: [1]})
    arms = [value for part, value in result.parts.items() if not part.startswith("x_")]
    factors = [value for part, value in result.parts.items() if part.startswith("x_")]
    assert (len(arms), len(factors)) == (2, 4)
    assert result.score == pytest.approx(sum(arms) * math.prod(factors))


USEFULNESS = {
    "no outcome is the rate of the scope": (0, 0, 0.7, 0.7),
    "four successes count as much as the rate": (4, 0, 0.5, 0.75),
    "four failures count as much as the rate": (0, 4, 0.9, 0.45),
    "many outcomes outweigh the rate": (96, 0, 0.0, 0.96),
}


@pytest.mark.parametrize(
    ("succeeded", "failed", "rate", "value"), USEFULNESS.values(), ids=USEFULNESS
)
def test_usefulness(succeeded: int, failed: int, rate: float, value: float) -> None:
    assert ranking.usefulness(OutcomeCounts(succeeded, failed), rate) == pytest.approx(value)


SUCCESS_RATES = {
    "nine outcomes say nothing": (9, 0, 0.5),
    "ten outcomes are a rate": (9, 1, 0.9),
    "no outcome is neutral": (0, 0, 0.5),
    "failures alone are a rate of 0": (0, 10, 0.0),
}


@pytest.mark.parametrize(("succeeded", "failed", "rate"), SUCCESS_RATES.values(), ids=SUCCESS_RATES)
def test_success_rate(succeeded: int, failed: int, rate: float) -> None:
    assert ranking.success_rate(OutcomeCounts(succeeded, failed)) == rate


APPLIED = {
    "a success moves a fact ahead": ({2: OutcomeCounts(4, 0)}, {}, [2, 1], {2: 1.1}),
    "failures move a fact back": ({1: OutcomeCounts(0, 4)}, {}, [2, 1], {1: 0.9}),
    "a fact without outcomes has no factor": ({}, {}, [1, 2], {}),
    "the rate of the scope counts": ({2: OutcomeCounts(0, 4)}, {1: 1.0}, [1, 2], {2: 1.0}),
}


@pytest.mark.parametrize(("uses", "rates", "numbers", "factors"), APPLIED.values(), ids=APPLIED)
def test_usefulness_factor(
    uses: dict[int, OutcomeCounts],
    rates: dict[int, float],
    numbers: list[int],
    factors: dict[int, float],
) -> None:
    rows = {number: candidate(number=number) for number in (1, 2)}
    evidence = Evidence(rows, {}, uses=uses, success_rates=rates)
    ranked = [Ranked(1, 1.0, {"bm25": 1.0}), Ranked(2, 1.0, {"bm25": 1.0})]
    results = ranking.apply_usefulness(ranked, evidence)
    assert [result.number for result in results] == numbers
    assert {
        result.number: pytest.approx(result.parts["x_usefulness"])
        for result in results
        if "x_usefulness" in result.parts
    } == factors
    assert all(result.score == pytest.approx(factors.get(result.number, 1.0)) for result in results)
