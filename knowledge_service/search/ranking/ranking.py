"""Ranking: features add to the text score, and factors multiply the sum.

    score = (text + context + links + meaning + word_vectors) x factors

All features use the unit of the text score, so that a good match stays ahead of a fact that is only
next to one. Their weights are learned (`weights`) and depend on the kind of candidate: a turn of a
conversation, a fact of a run, an observation of an entity, or any other fact. What others can do to
a fact (age, confidence, confirmations, outcomes of runs) changes a score by a factor in [0.8, 1.25]
in all. Equal scores are ordered by fact number. `parts` names everything that contributes to a
score: features by their name, factors with the prefix `x_`. Pure; reads no clock.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from knowledge_service.search.query.parser import ParsedQuery
from knowledge_service.search.ranking import word_vectors
from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.search.ranking.conversations import (
    grouping,
    speakers,
    turn_content,
    turn_order,
)
from knowledge_service.search.ranking.conversations.grouping import Conversation
from knowledge_service.search.ranking.weights import SHIPPED, Weights
from knowledge_service.search.text import dates

# The shares of the two predecessors and two successors in the context of a fact without a speaker,
# and in the choice of neighbours to read. `weights` has those of turns.
NEIGHBOUR_WEIGHTS = ((-1, 0.6), (-2, 0.4), (1, 0.2), (2, 0.2))
# Not learned, because no set of questions has links or embeddings.
_LINKED, _MEANING = 0.3, 0.6
# Word vectors are compared for this number of the best matches that are no turns.
_MOST_COMPARED = 16
_MOST_PHRASES = 3
_EXPIRED, _ENDED = 0.9, 0.8
# Statistics of fewer outcomes than this say nothing about a scope.
_MIN_OUTCOMES = 10
_NEUTRAL_RATE = 0.5
# The weight of the scope's outcomes in the usefulness of a fact, as a number of outcomes.
_PRIOR_OUTCOMES = 4
# (minimum, span): a factor is the minimum for the share 0, and minimum plus span for the share 1.
_USEFUL, _CONFIDENT = (0.8, 0.4), (0.9, 0.2)
# The influence of age on a score, when the query asks for the current state and when it does not.
_RECENT_NOW, _RECENT = 0.4, 0.05
# The confidence of facts that are remembered without one.
_DEFAULT_CONFIDENCE = 0.5
# A query about the current state compares the ages of the facts whose sum is at least this share of
# the best sum.
_RIVAL = 0.5
_HALF_LIFE_US = 90 * 86_400_000_000
# The bounds of the factors that other actors can influence, for each factor and for their product.
_LOW, _HIGH = 0.8, 1.25
_INFLUENCED = ("x_recency", "x_confidence", "x_usefulness")
TALK, RUN, OBSERVATION, FACT = "talk", "run", "observation", "fact"
"""The kinds of candidates: a turn with a speaker, a fact of a run, one about an entity, others."""
WORD_VECTORS_OF_TURNS = "word_vectors.turns"
"""The weight of word vectors for turns; only the second hop has one."""
ANSWER = "answer"
"""The kind of context of a turn that comes after a turn that only asks."""
_CONTEXT_OF = {RUN: "context.run", OBSERVATION: "context.observation"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMED = re.compile(
    r"(?i)\b(?:yesterday|today|tonight|tomorrow|ago|weekend|since \d"
    r"|(?:last|next|this|on) (?:week|month|year|night|morning|evening|spring|summer|autumn|fall"
    r"|winter|(?:mon|tues|wednes|thurs|fri|satur|sun)day)"
    r"|\d{1,2}(?:st|nd|rd|th)|(?:19|20)\d\d(?:-\d\d-\d\d)?|\d{1,2}:\d\d"
    r"|january|february|april|june|july|august|september|october|november|december)\b"
)


@dataclass(frozen=True)
class OutcomeCounts:
    """The numbers of succeeded and of failed runs that recalled a fact."""

    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True)
class Evidence:
    """The rows that match a query, by fact number, and the evidence for each.

    Attributes:
        text: the text scores.
        ordinals: the positions of facts in their scopes, in insertion order.
        linked: the best facts that a fact is linked with.
        similarities: similarities of embeddings, in [0, 1].
        uses: outcomes of the runs that recalled a fact.
        success_rates: the success rates of scopes with at least ten outcomes.
        conversations: the conversations of all rows, if they were computed before.
    """

    rows: Mapping[int, Candidate]
    text: Mapping[int, float]
    ordinals: Mapping[int, int] = field(default_factory=dict)
    linked: Mapping[int, Sequence[int]] = field(default_factory=dict)
    similarities: Mapping[int, float] = field(default_factory=dict)
    uses: Mapping[int, OutcomeCounts] = field(default_factory=dict)
    success_rates: Mapping[int, float] = field(default_factory=dict)
    conversations: Mapping[int, Conversation] | None = None


class Ranked(NamedTuple):
    """A fact's number, its score, and the parts of the score."""

    number: int
    score: float
    parts: dict[str, float]


@dataclass(frozen=True, slots=True)
class Group:
    """Data that the ranker derives for a candidate, such as its conversation."""

    conversation: Conversation | None
    kind: str
    is_asking: bool


_UNGROUPED = Group(None, FACT, is_asking=False)


@dataclass(frozen=True)
class Groups:
    """The group of each candidate, by fact number."""

    of: Mapping[int, Group]
    use_conversations: bool


def rank(
    question: ParsedQuery,
    evidence: Evidence,
    now: datetime,
    *,
    size: int,
    weights: Weights = SHIPPED,
    use_conversations: bool = True,
) -> list[Ranked]:
    """Return the scored rows, best first.

    Only the best `size` rows by the sum of their features are scored with factors. Without
    `use_conversations`, no score depends on speakers, turns or sessions.
    """
    groups = group_candidates(evidence, use_conversations=use_conversations)
    features = sum_features(question, evidence, groups, weights)
    sums = sorted((-sum(parts.values()), number) for number, parts in features.items())
    best = [number for _, number in sums[:size]]
    factors = factors_of(question, evidence, groups, best, now, weights)
    if question.prefers_recent:
        _compare_ages(sums[:size], evidence, factors)
    ranked = []
    for negative_score, number in sums[:size]:
        score = -negative_score
        for value in factors[number].values():
            score *= value
        if score > 0:
            ranked.append(Ranked(number, score, features[number] | factors[number]))
    ranked.sort(key=lambda each: (-each.score, each.number))
    return ranked


def group_candidates(evidence: Evidence, *, use_conversations: bool) -> Groups:
    """Find the group of each candidate."""
    conversations = evidence.conversations if use_conversations else {}
    if conversations is None:
        conversations = grouping.group_by_conversation(evidence.rows.values())
    groups = {}
    for number, row in evidence.rows.items():
        conversation = conversations.get(number)
        if conversation is None:
            groups[number] = _UNGROUPED
        else:
            groups[number] = Group(
                conversation, _kind(row, conversation), turn_content.is_asking(row)
            )
    return Groups(groups, use_conversations=use_conversations)


def _kind(row: Candidate, conversation: Conversation) -> str:
    if grouping.is_about_entity(conversation):
        return OBSERVATION
    is_turn = grouping.is_conversation(conversation) and speakers.has_speaker(row)
    return TALK if is_turn else RUN


def factors_of(
    question: ParsedQuery,
    evidence: Evidence,
    groups: Groups,
    numbers: Sequence[int],
    now: datetime,
    weights: Weights,
) -> dict[int, dict[str, float]]:
    """Return the factors of some rows by name."""
    now_us = (now - _EPOCH) // timedelta(microseconds=1)
    rows = [evidence.rows[number] for number in numbers]
    use_conversations = groups.use_conversations
    speaker_factors = _speaker_factors(question, rows, weights) if use_conversations else {}
    short = weights.factors["x_short"]
    if question.phrases:
        question = replace(question, phrases=_occurring(question.phrases, rows))
    result = {}
    for row in rows:
        group = groups.of[row.number]
        factors = _factors(question, row, now_us, weights, group.kind, use_conversations)
        if row.number in speaker_factors:
            factors["x_speaker"] = speaker_factors[row.number]
        if _is_short_turn(row, group.conversation):
            factors["x_short"] = short
        result[row.number] = factors
    return result


def _occurring(phrases: Iterable[str], rows: Iterable[Candidate]) -> tuple[str, ...]:
    """Return the phrases that may occur in a row; one search of the joined rows excludes most."""
    contents = "\n".join([row.content for row in rows]).casefold()
    return tuple([phrase for phrase in phrases if phrase in contents])


def _compare_ages(
    sums: Sequence[tuple[float, int]],
    evidence: Evidence,
    factors: Mapping[int, dict[str, float]],
) -> None:
    """Replace the age factors of the best rows by their order in time.

    For a query about the current state, the age factors of old facts would differ too little.
    `sums` are negative and ascending.
    """
    enough = sums[0][0] * _RIVAL if sums else 0.0
    rivals = [number for negative_sum, number in sums if negative_sum <= enough < 0]
    times = sorted({evidence.rows[number].since_us for number in rivals})
    if len(times) == 1:
        return
    span = 2 * (1 - _LOW)
    recency = {time: _LOW + span * place / (len(times) - 1) for place, time in enumerate(times)}
    for number in rivals:
        changed = factors[number]
        changed.pop("x_bound", None)
        changed["x_recency"] = recency[evidence.rows[number].since_us]
        _add_bound(changed)


def apply_usefulness(ranked: Iterable[Ranked], evidence: Evidence) -> list[Ranked]:
    """Apply the outcomes of the runs that recalled the facts, and sort again, best first."""
    reordered = []
    for result in ranked:
        outcomes = evidence.uses.get(result.number)
        if outcomes is None:
            reordered.append(result)
            continue
        parts = dict(result.parts)
        earlier_bound = parts.pop("x_bound", 1.0)
        value = _bounded(_interpolate(_USEFUL, usefulness(outcomes, _rate(evidence, result))))
        parts["x_usefulness"] = value
        bound = _add_bound(parts)
        reordered.append(Ranked(result.number, result.score * value * bound / earlier_bound, parts))
    reordered.sort(key=lambda result: (-result.score, result.number))
    return reordered


def _add_bound(factors: dict[str, float]) -> float:
    """Add the factor that bounds the product of the influenced factors; return it, or 1."""
    product = 1.0
    for name in _INFLUENCED:
        product *= factors.get(name, 1.0)
    bound = _bounded(product) / product
    if bound != 1:
        factors["x_bound"] = bound
    return bound


def usefulness(uses: OutcomeCounts, rate: float) -> float:
    """Return the share of successes, drawn towards the scope's `rate` while there are few."""
    return (uses.succeeded + _PRIOR_OUTCOMES * rate) / (
        uses.succeeded + uses.failed + _PRIOR_OUTCOMES
    )


def success_rate(uses: OutcomeCounts) -> float:
    """Return a scope's own success rate; 0.5 while there are fewer than ten outcomes."""
    total = uses.succeeded + uses.failed
    return uses.succeeded / total if total >= _MIN_OUTCOMES else _NEUTRAL_RATE


def _rate(evidence: Evidence, result: Ranked) -> float:
    return evidence.success_rates.get(evidence.rows[result.number].scope_no, _NEUTRAL_RATE)


def sum_features(
    question: ParsedQuery, evidence: Evidence, groups: Groups, weights: Weights
) -> dict[int, dict[str, float]]:
    """Return the additive parts of each row's score, by fact number.

    They are linear in the weights: what a weight of 1 adds is the value of its feature.
    """
    text = evidence.text
    parts = {number: {"bm25": text.get(number, 0.0)} for number in evidence.rows}
    _add_conversations(parts, groups.of, evidence, weights)
    for number, linked_numbers in evidence.linked.items():
        parts[number]["links"] = _LINKED * max(
            text.get(linked_number, 0.0) for linked_number in linked_numbers
        )
    best = max(text.values(), default=0.0) or 1.0
    for number, value in evidence.similarities.items():
        parts[number]["meaning"] = _MEANING * best * value
    if not evidence.similarities:
        _add_word_vectors(parts, question, evidence, groups, weights)
    return parts


def _add_word_vectors(
    parts: Mapping[int, dict[str, float]],
    question: ParsedQuery,
    evidence: Evidence,
    groups: Groups,
    weights: Weights,
) -> None:
    """Add the similarity of word vectors to the best matches that are no turns, and to all turns.

    That of a fact is the product of the similarities by both tables. Turns are compared by the
    distilled vectors alone, and only in the second hop, which gives them a weight.
    """
    text = evidence.text
    best = max(text.values(), default=0.0)
    facts = [number for number, score in text.items() if score and groups.of[number].kind != TALK]
    facts = sorted(facts, key=lambda number: (-text[number], number))[:_MOST_COMPARED]
    turn_weight = weights.additive.get(WORD_VECTORS_OF_TURNS, 0.0)
    turns = [number for number in parts if groups.of[number].kind == TALK] if turn_weight else []
    compared = [*facts, *turns]
    contents = [evidence.rows[number].content for number in compared]
    similarities = word_vectors.TEXT_VECTORS.similarities(question.own_terms, contents)
    weight = weights.additive["word_vectors"]
    for number, by_contexts, distilled in zip(compared, *similarities, strict=True):
        if groups.of[number].kind == TALK:
            share = turn_weight * distilled
        else:
            share = weight * by_contexts * distilled
        if best * share:
            parts[number]["word_vectors"] = best * share


def _add_conversations(
    parts: Mapping[int, dict[str, float]],
    groups: Mapping[int, Group],
    evidence: Evidence,
    weights: Weights,
) -> None:
    conversations = {
        number: group.conversation for number, group in groups.items() if group.conversation
    }
    if not conversations:
        return
    text, steps = evidence.text, _steps(weights)
    ordinals = turn_order.order_turns(conversations, evidence.rows, evidence.ordinals)
    members: defaultdict[Conversation, list[int]] = defaultdict(list)
    for number, conversation in conversations.items():
        members[conversation].append(number)
    for numbers in members.values():
        # A turn without a query term contributes nothing to its neighbours.
        text_at = {
            ordinals[member]: text[member]
            for member in numbers
            if member in ordinals and text.get(member)
        }
        after_question = {
            ordinals[member] + 1
            for member in numbers
            if groups[member].is_asking and member in ordinals
        }
        for number in numbers:
            ordinal, group = ordinals.get(number), groups[number]
            # A turn that only asks does not answer the turn before it.
            if ordinal is not None and not group.is_asking:
                kind = ANSWER if group.kind == TALK and ordinal in after_question else group.kind
                parts[number]["context"] = sum(
                    [
                        weight * text_at[ordinal + step]
                        for step, weight in steps[kind]
                        if ordinal + step in text_at
                    ],
                    0.0,
                )


def _steps(weights: Weights) -> dict[str, tuple[tuple[int, float], ...]]:
    """Return by kind what a neighbour at each distance contributes."""
    additive = weights.additive
    after = ((1, additive["context.next"]), (2, additive["context.second_next"]))
    before = ((-1, additive["context.previous"]), (-2, additive["context.second_previous"]))
    answer_steps = ((-1, additive["context.answer"]), (-2, additive["context.second_answer"]))
    steps: dict[str, tuple[tuple[int, float], ...]] = {
        TALK: before + after,
        ANSWER: answer_steps + after,
    }
    for kind, name in _CONTEXT_OF.items():
        steps[kind] = tuple((step, additive[name] * share) for step, share in NEIGHBOUR_WEIGHTS)
    return steps


def _factors(
    query: ParsedQuery,
    row: Candidate,
    now_us: int,
    weights: Weights,
    kind: str,
    use_conversations: bool,
) -> dict[str, float]:
    factors = _time_factors(row, now_us, _RECENT_NOW if query.prefers_recent else _RECENT)
    learned = weights.factors
    if query.phrases:
        content = row.content.casefold()
        count = sum([phrase in content for phrase in query.phrases])
        if count:
            factors["x_phrase"] = learned["x_phrase"] ** min(count, _MOST_PHRASES)
    if query.dates and _is_dated(
        row, query.dates, turn_content.stated_days(row) if use_conversations else ()
    ):
        factors["x_date"] = learned["x_date"]
    if query.asks_time and kind == TALK and _TIMED.search(row.content):
        factors["x_when"] = learned["x_when"]
    if query.answer_pattern is not None and query.answer_pattern.search(row.content):
        factors["x_wanted"] = learned["x_wanted.talk" if kind == TALK else "x_wanted.fact"]
    if row.confidence != _DEFAULT_CONFIDENCE:
        factors["x_confidence"] = _interpolate(_CONFIDENT, row.confidence)
        _add_bound(factors)
    return factors


def _speaker_factors(
    query: ParsedQuery, rows: Iterable[Candidate], weights: Weights
) -> dict[int, float]:
    """Return the factors of turns: spoken by the person that the query is about, or by another."""
    if not query.names:
        return {}
    learned = weights.factors
    speaking: dict[int, float] = {}
    other_speakers: dict[int, float] = {}
    for row in rows:
        is_speaker = speakers.is_speaker(row, query.names)
        if is_speaker:
            speaking[row.number] = learned["x_speaker.own"]
        elif is_speaker is False:
            other_speakers[row.number] = learned["x_speaker.other"]
    return speaking | other_speakers if speaking else {}


def _is_short_turn(row: Candidate, session: Conversation | None) -> bool:
    """Return whether the row is a short turn of a dialogue. Short facts elsewhere are complete."""
    return session is not None and grouping.is_conversation(session) and turn_content.is_short(row)


def _is_dated(
    row: Candidate,
    periods: Sequence[dates.Moment | dates.Span],
    stated_days: Sequence[dates.Moment],
) -> bool:
    """Return whether a fact dates from one of the periods, or names a day in it ("yesterday").

    A fact that states no day dates from the day on which it was recorded.
    """
    stated = [datetime(day.year, day.month, day.day or 1, tzinfo=UTC) for day in stated_days]
    start = stated[0] if stated else _moment(row.since_us)
    moments = stated or [start]
    if stated or row.valid_from_us is not None:
        spans = dates.relative(row.content, start.date())
        moments += [moment for span in spans for moment in span.moments]
    return any(period.holds(moment) for period in periods for moment in moments)


def _time_factors(row: Candidate, now_us: int, reach: float) -> dict[str, float]:
    age_us = max(now_us - row.since_us, 0)
    factors = {"x_recency": 1 + reach * (2 ** (-age_us / _HALF_LIFE_US) - 0.5)}
    if row.valid_until_us is not None and row.valid_until_us <= now_us:
        factors["x_validity"] = _ENDED
    elif row.expires_us is not None and row.expires_us <= now_us:
        factors["x_validity"] = _EXPIRED
    return factors


def _interpolate(factor: tuple[float, float], share: float) -> float:
    minimum, span = factor
    return minimum + span * share


def _moment(us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=us)


def _bounded(value: float) -> float:
    return min(max(value, _LOW), _HIGH)
