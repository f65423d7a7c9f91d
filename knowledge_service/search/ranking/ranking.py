"""Ranking: features add to the text score, and bounded factors multiply the sum.

    score = (text + context + session + links + meaning) x factors, each factor in [0.8, 1.25]

All features use the unit of the text score, so that a good match stays ahead of a fact that is only
next to one. Equal scores are ordered by fact number. `parts` names everything that contributes to a
score: features by their name, factors with the prefix `x_`. Pure; reads no clock.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from knowledge_service.search.query.parser import ParsedQuery
from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.search.ranking.conversations import sessions, speakers, turns
from knowledge_service.search.ranking.conversations.sessions import Conversation
from knowledge_service.search.text import dates

# The share of a turn's score that its two predecessors and two successors contribute, and the share
# when the predecessor only asks. Tuned on half of the conversations in bench/recall and on similar
# ones.
NEIGHBOUR_WEIGHTS = ((-1, 0.6), (-2, 0.4), (1, 0.2), (2, 0.2))
_ANSWER_WEIGHTS = ((-1, 0.8), (-2, 0.5), (1, 0.2), (2, 0.2))
# The share of that for facts without a speaker: facts of one run explain each other less than
# turns.
_WITHOUT_SPEAKER = 0.5
_SESSION, _SESSION_BEST = 0.25, 2
_LINKED = 0.3
_MEANING = 0.6
# For turns of the person asked about, of others who address that person, and of anybody else; for
# turns that only ask, and turns that say little.
_SPEAKER, _TO_SPEAKER, _OTHER_SPEAKER, _ASKS, _SHORT = 1.25, 0.95, 0.8, 0.8, 0.8
_DATED, _WHEN, _WANTED, _PHRASE = 1.25, 1.15, 1.15, 0.04
_MOST_PHRASES = 3
_EXPIRED, _ENDED = 0.9, 0.8
# Statistics of fewer outcomes than this say nothing about a scope.
_MIN_OUTCOMES = 10
_NEUTRAL_RATE = 0.5
# The weight of the scope's outcomes in the usefulness of a fact, as a number of outcomes.
_PRIOR_OUTCOMES = 4
# (minimum, span): a factor is the minimum for the share 0, and minimum plus span for the share 1.
_USEFUL, _CONFIDENT = (0.8, 0.4), (0.9, 0.2)
# The influence of age on a score: when the query asks for the current state, and otherwise.
_RECENT_NOW, _RECENT = 0.4, 0.05
# The confidence of facts that are remembered without one.
_DEFAULT_CONFIDENCE = 0.5
_HALF_LIFE_US = 90 * 86_400_000_000
_LOW, _HIGH = 0.8, 1.25
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


@dataclass(frozen=True)
class Ranked:
    """A fact's number, its score, and the parts of the score."""

    number: int
    score: float
    parts: dict[str, float]


def rank(
    question: ParsedQuery,
    evidence: Evidence,
    now: datetime,
    *,
    size: int,
    use_conversations: bool = True,
) -> list[Ranked]:
    """Return the scored rows, best first.

    Only the best `size` rows by the sum of their features are scored with factors. Without
    `use_conversations`, no score depends on speakers, turns or sessions.
    """
    now_us = (now - _EPOCH) // timedelta(microseconds=1)
    conversations = evidence.conversations if use_conversations else {}
    if conversations is None:
        conversations = sessions.group_by_conversation(evidence.rows.values())
    asking = {number for number in conversations if speakers.is_asking(evidence.rows[number])}
    arms = _sum_features(evidence, conversations, asking)
    sums = sorted((-sum(parts.values()), number) for number, parts in arms.items())
    ranked = []
    best_rows = [evidence.rows[number] for _, number in sums[:size]]
    speaker_factors = _speaker_factors(question, best_rows) if use_conversations else {}
    for negative_score, number in sums[:size]:
        score = -negative_score
        factors = _factors(question, evidence.rows[number], now_us, use_conversations)
        if number in speaker_factors:
            factors["x_speaker"] = speaker_factors[number]
        if number in asking:
            factors["x_asks"] = _ASKS
        if _is_short_turn(evidence.rows[number], conversations.get(number)):
            factors["x_short"] = _SHORT
        for value in factors.values():
            score *= value
        if score > 0:
            ranked.append(Ranked(number, score, arms[number] | factors))
    ranked.sort(key=lambda each: (-each.score, each.number))
    return ranked


def apply_usefulness(ranked: Iterable[Ranked], evidence: Evidence) -> list[Ranked]:
    """Apply the outcomes of the runs that recalled the facts, and sort again, best first."""
    reordered = []
    for result in ranked:
        outcomes = evidence.uses.get(result.number)
        value = (
            _bounded(_interpolate(_USEFUL, usefulness(outcomes, _rate(evidence, result))))
            if outcomes
            else 1.0
        )
        parts = {**result.parts, "x_usefulness": value} if outcomes else result.parts
        reordered.append(Ranked(result.number, result.score * value, parts))
    reordered.sort(key=lambda result: (-result.score, result.number))
    return reordered


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


def _sum_features(
    evidence: Evidence, conversations: Mapping[int, Conversation], asking: Set[int]
) -> dict[int, dict[str, float]]:
    text = evidence.text
    arms = {number: {"bm25": text.get(number, 0.0)} for number in evidence.rows}
    if conversations:
        _add_conversations(arms, conversations, asking, evidence)
    for number, linked_numbers in evidence.linked.items():
        arms[number]["links"] = _LINKED * max(
            text.get(linked_number, 0.0) for linked_number in linked_numbers
        )
    best = max(text.values(), default=0.0) or 1.0
    for number, value in evidence.similarities.items():
        arms[number]["meaning"] = _MEANING * best * value
    return arms


def _add_conversations(
    arms: Mapping[int, dict[str, float]],
    conversations: Mapping[int, Conversation],
    asking: Set[int],
    evidence: Evidence,
) -> None:
    text = evidence.text
    ordinals = turns.order_turns(conversations, evidence.rows, evidence.ordinals)
    members: defaultdict[Conversation, list[int]] = defaultdict(list)
    for number, conversation in conversations.items():
        members[conversation].append(number)
    for numbers in members.values():
        best = sorted([text.get(number, 0.0) for number in numbers], reverse=True)
        strength = _SESSION * (sum(best[:_SESSION_BEST]) / _SESSION_BEST)
        # A turn without a query term contributes nothing to its neighbours.
        text_at = {
            ordinals[member]: text[member]
            for member in numbers
            if member in ordinals and text.get(member)
        }
        after_question = {
            ordinals[member] + 1 for member in numbers if member in asking and member in ordinals
        }
        for number in numbers:
            ordinal = ordinals.get(number)
            # A turn that only asks does not answer the turn before it.
            if ordinal is not None and number not in asking:
                context = _context(text_at, ordinal, after_question)
                if context and not speakers.has_speaker(evidence.rows[number]):
                    context *= _WITHOUT_SPEAKER
                arms[number]["context"] = context
            if number in text:
                arms[number]["session"] = strength


def _context(text_at: Mapping[int, float], ordinal: int, after_question: Set[int]) -> float:
    """Return the sum of the neighbours' contributions to a turn."""
    weights = _ANSWER_WEIGHTS if ordinal in after_question else NEIGHBOUR_WEIGHTS
    return sum(
        [weight * text_at[ordinal + step] for step, weight in weights if ordinal + step in text_at],
        0.0,
    )


def _factors(
    query: ParsedQuery, row: Candidate, now_us: int, use_conversations: bool
) -> dict[str, float]:
    factors = _time_factors(row, now_us, _RECENT_NOW if query.prefers_recent else _RECENT)
    if query.phrases:
        content = row.content.casefold()
        count = sum([phrase in content for phrase in query.phrases])
        if count:
            factors["x_phrase"] = 1 + _PHRASE * min(count, _MOST_PHRASES)
    if query.dates and _is_dated(
        row, query.dates, speakers.stated_days(row) if use_conversations else ()
    ):
        factors["x_date"] = _DATED
    if query.asks_time and _TIMED.search(row.content):
        factors["x_when"] = _WHEN
    if query.answer_pattern is not None and query.answer_pattern.search(row.content):
        factors["x_wanted"] = _WANTED
    if row.confidence != _DEFAULT_CONFIDENCE:
        factors["x_confidence"] = _interpolate(_CONFIDENT, row.confidence)
    return factors


def _speaker_factors(query: ParsedQuery, rows: Iterable[Candidate]) -> dict[int, float]:
    """Return factors for speakers: the person that the query is about, or somebody else.

    Someone who speaks to the other of two people may be speaking about them.
    """
    if not query.names:
        return {}
    speaking: dict[int, float] = {}
    other_speakers: dict[int, float] = {}
    for row in rows:
        is_speaker = speakers.is_speaker(row, query.names)
        if is_speaker:
            speaking[row.number] = _SPEAKER
        elif is_speaker is False:
            other_speakers[row.number] = (
                _TO_SPEAKER if speakers.is_spoken_to(row) else _OTHER_SPEAKER
            )
    return speaking | other_speakers if speaking else {}


def _is_short_turn(row: Candidate, session: Conversation | None) -> bool:
    """Return whether the row is a short turn of a dialogue. Short facts elsewhere are complete."""
    return session is not None and sessions.is_conversation(session) and speakers.is_short(row)


def _is_dated(
    row: Candidate,
    periods: Sequence[dates.Moment | dates.Span],
    stated_days: Sequence[dates.Moment],
) -> bool:
    """Return whether a fact is of one of the periods, or names a day in it ("yesterday").

    A fact without a day of its own counts as of the day on which it was recorded.
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
