"""From scored texts to ranked facts: arms add to a score, bounded factors multiply it.

    score = (text + context + session + links + meaning) x factors, each factor in [0.8, 1.25]

All arms speak in the unit of the text score, so that what matches well stays ahead of what merely
stands beside it. Equal scores are ordered by fact number. Everything that a score is made of is in
its parts: arms by their name, factors with an `x_` before it. Pure; reads no clock.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from knowledge_service.search.query.parser import Question
from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.search.ranking.conversations import sessions, speakers, turns
from knowledge_service.search.ranking.conversations.sessions import Session
from knowledge_service.search.text import dates

# What a turn gains from the two before and the two after; and when the one before only asks. Found
# on half of the conversations in bench/recall and on others of their kind.
BESIDE = ((-1, 0.6), (-2, 0.4), (1, 0.2), (2, 0.2))
_ANSWERS = ((-1, 0.8), (-2, 0.5), (1, 0.2), (2, 0.2))
# Of that, what nobody says: facts of one run tell of each other less than turns do.
_UNSAID = 0.5
_SESSION, _SESSION_BEST = 0.25, 2
_LINKED = 0.3
_MEANING = 0.6
# The one who is asked about, who speaks to them, anybody else; turns that only ask, or say little.
_SPEAKER, _TO_SPEAKER, _OTHER, _ASKS, _SHORT = 1.25, 0.95, 0.8, 0.8, 0.8
_DATED, _WHEN, _WANTED, _PHRASE = 1.25, 1.15, 1.15, 0.04
_MOST_PHRASES = 3
_EXPIRED, _ENDED = 0.9, 0.8
# Statistics of fewer outcomes than this say nothing about a scope.
_ENOUGH = 10
_EVEN = 0.5
# The weight of the scope's outcomes in the usefulness of a fact, as a number of outcomes.
_PRIOR = 4
# A factor is the first at nothing, and the second more at all.
_USEFUL, _CONFIDENT = (0.8, 0.4), (0.9, 0.2)
# How far age moves a score, when the question asks for what is so now and otherwise.
_RECENT_NOW, _RECENT = 0.4, 0.05
# What is remembered without saying how sure.
_UNSURE = 0.5
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
class Uses:
    """How often a fact was in front of runs that succeeded and that failed."""

    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True)
class Evidence:
    """What was found for a question: rows by fact number, and what speaks for each of them.

    `text` is the text score; `place` numbers the facts of each scope in the order in which they
    came; `linked` names the best facts that a fact is linked with; `meaning` is a similarity in
    [0, 1]; `rates` are the success rates of scopes with at least ten outcomes; `tied` are the
    sessions of all rows, where they are known already.
    """

    rows: Mapping[int, Candidate]
    text: Mapping[int, float]
    place: Mapping[int, int] = field(default_factory=dict)
    linked: Mapping[int, Sequence[int]] = field(default_factory=dict)
    meaning: Mapping[int, float] = field(default_factory=dict)
    uses: Mapping[int, Uses] = field(default_factory=dict)
    rates: Mapping[int, float] = field(default_factory=dict)
    tied: Mapping[int, Session] | None = None


@dataclass(frozen=True)
class Ranked:
    """A fact's number, its score, and the parts of it."""

    number: int
    score: float
    parts: dict[str, float]


def rank(question: Question, evidence: Evidence, now: datetime, *, size: int) -> list[Ranked]:
    """Score the rows, the best first; at most `size`, the best by their arms alone."""
    now_us = (now - _EPOCH) // timedelta(microseconds=1)
    tied = evidence.tied
    if tied is None:
        tied = sessions.of_all(evidence.rows.values())
    asking = {number for number in tied if speakers.is_asking(evidence.rows[number])}
    arms = _arms(evidence, tied, asking)
    sums = sorted((-sum(parts.values()), number) for number, parts in arms.items())
    found = []
    heard = _heard(question, [evidence.rows[number] for _, number in sums[:size]])
    for minus, number in sums[:size]:
        score = -minus
        factors = _factors(question, evidence.rows[number], now_us)
        if number in heard:
            factors["x_speaker"] = heard[number]
        if number in asking:
            factors["x_asks"] = _ASKS
        if _hardly_says(evidence.rows[number], tied.get(number)):
            factors["x_short"] = _SHORT
        for value in factors.values():
            score *= value
        if score > 0:
            found.append(Ranked(number, score, arms[number] | factors))
    found.sort(key=lambda each: (-each.score, each.number))
    return found


def with_use(ranked: Iterable[Ranked], evidence: Evidence) -> list[Ranked]:
    """Apply what became of the runs that facts were in front of; the best first again."""
    found = []
    for each in ranked:
        uses = evidence.uses.get(each.number)
        value = _bounded(_share(_USEFUL, usefulness(uses, _rate(evidence, each)))) if uses else 1.0
        parts = {**each.parts, "x_usefulness": value} if uses else each.parts
        found.append(Ranked(each.number, each.score * value, parts))
    found.sort(key=lambda each: (-each.score, each.number))
    return found


def usefulness(uses: Uses, rate: float) -> float:
    """Return the share of successes, drawn to the scope's own rate while there are few."""
    return (uses.succeeded + _PRIOR * rate) / (uses.succeeded + uses.failed + _PRIOR)


def success_rate(uses: Uses) -> float:
    """Return a scope's own success rate; 0.5 while there are fewer than ten outcomes."""
    total = uses.succeeded + uses.failed
    return uses.succeeded / total if total >= _ENOUGH else _EVEN


def _rate(evidence: Evidence, each: Ranked) -> float:
    return evidence.rates.get(evidence.rows[each.number].scope_no, _EVEN)


def _arms(
    evidence: Evidence, tied: Mapping[int, Session], asking: Set[int]
) -> dict[int, dict[str, float]]:
    text = evidence.text
    arms = {number: {"bm25": text.get(number, 0.0)} for number in evidence.rows}
    if tied:
        _add_sessions(arms, tied, asking, evidence)
    for number, others in evidence.linked.items():
        arms[number]["links"] = _LINKED * max(text.get(other, 0.0) for other in others)
    best = max(text.values(), default=0.0) or 1.0
    for number, value in evidence.meaning.items():
        arms[number]["meaning"] = _MEANING * best * value
    return arms


def _add_sessions(
    arms: Mapping[int, dict[str, float]],
    tied: Mapping[int, Session],
    asking: Set[int],
    evidence: Evidence,
) -> None:
    text = evidence.text
    places = turns.in_order(tied, evidence.rows, evidence.place)
    members: defaultdict[Session, list[int]] = defaultdict(list)
    for number, name in tied.items():
        members[name].append(number)
    for numbers in members.values():
        best = sorted([text.get(number, 0.0) for number in numbers], reverse=True)
        strength = _SESSION * (sum(best[:_SESSION_BEST]) / _SESSION_BEST)
        # What has no word of the question gives nothing to those beside it.
        at = {places[n]: text[n] for n in numbers if n in places and text.get(n)}
        asked = {places[n] + 1 for n in numbers if n in asking and n in places}
        for number in numbers:
            place = places.get(number)
            # A turn that only asks is no answer to what was said before it.
            if place is not None and number not in asking:
                context = _context(at, place, asked)
                if context and not speakers.is_said(evidence.rows[number]):
                    context *= _UNSAID
                arms[number]["context"] = context
            if number in text:
                arms[number]["session"] = strength


def _context(at: Mapping[int, float], place: int, asked: Set[int]) -> float:
    """Add up what a turn gains from those beside it in its session."""
    beside = _ANSWERS if place in asked else BESIDE
    return sum([weight * at[place + step] for step, weight in beside if place + step in at], 0.0)


def _factors(question: Question, row: Candidate, now_us: int) -> dict[str, float]:
    found = _time_factors(row, now_us, _RECENT_NOW if question.asks_now else _RECENT)
    if question.phrases:
        content = row.content.casefold()
        count = sum([phrase in content for phrase in question.phrases])
        if count:
            found["x_phrase"] = 1 + _PHRASE * min(count, _MOST_PHRASES)
    if question.dates and _is_of(row, question.dates):
        found["x_date"] = _DATED
    if question.asks_when and _TIMED.search(row.content):
        found["x_when"] = _WHEN
    if question.wanted is not None and question.wanted.search(row.content):
        found["x_wanted"] = _WANTED
    if row.confidence != _UNSURE:
        found["x_confidence"] = _share(_CONFIDENT, row.confidence)
    return found


def _heard(question: Question, rows: Iterable[Candidate]) -> dict[int, float]:
    """Weigh who says the facts: the one whom the question is about, or somebody else instead.

    Who speaks to the other of two may be speaking about them.
    """
    if not question.names:
        return {}
    found: dict[int, float] = {}
    others: dict[int, float] = {}
    for row in rows:
        is_voice = speakers.is_voice(row, question.names)
        if is_voice:
            found[row.number] = _SPEAKER
        elif is_voice is False:
            others[row.number] = _TO_SPEAKER if speakers.is_spoken_to(row) else _OTHER
    return found | others if found else {}


def _hardly_says(row: Candidate, session: Session | None) -> bool:
    """Tell whether it is a turn of few words. What is known in few words says all of it."""
    return session is not None and sessions.is_talk(session) and speakers.is_short(row)


def _is_of(row: Candidate, asked: Sequence[dates.Moment | dates.Span]) -> bool:
    """Tell whether a fact is of a day that is asked for, or names one ("yesterday") as of its own.

    What has no day of its own is of the one on which it was recorded.
    """
    said = [
        datetime(day.year, day.month, day.day or 1, tzinfo=UTC) for day in speakers.said_on(row)
    ]
    since = said[0] if said else _moment(row.since_us)
    moments = said or [since]
    if said or row.valid_from_us is not None:
        spans = dates.relative(row.content, since.date())
        moments += [moment for span in spans for moment in span.moments]
    return any(each.holds(moment) for each in asked for moment in moments)


def _time_factors(row: Candidate, now_us: int, reach: float) -> dict[str, float]:
    age_us = max(now_us - row.since_us, 0)
    found = {"x_recency": 1 + reach * (2 ** (-age_us / _HALF_LIFE_US) - 0.5)}
    if row.valid_until_us is not None and row.valid_until_us <= now_us:
        found["x_validity"] = _ENDED
    elif row.expires_us is not None and row.expires_us <= now_us:
        found["x_validity"] = _EXPIRED
    return found


def _share(factor: tuple[float, float], share: float) -> float:
    least, more = factor
    return least + more * share


def _moment(us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=us)


def _bounded(value: float) -> float:
    return min(max(value, _LOW), _HIGH)
