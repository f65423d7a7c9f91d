"""One retrieval over what a store gives: candidates, what stands beside them, ranking, folding.

    text (the best) -> filters -> neighbours and links of the best -> ranking -> usefulness
    -> overridden and near-duplicate facts left out -> limit

The same for every store, which hands in a `Shelf` that sees visible scopes only. With a `Watch`,
it is written down what became of one fact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from knowledge_service.domain import recall_filters
from knowledge_service.domain.recall_filters import Filters
from knowledge_service.search.query import parser
from knowledge_service.search.ranking import ranking
from knowledge_service.search.ranking.bm25 import Scores
from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.search.ranking.conversations import sessions
from knowledge_service.search.ranking.conversations.sessions import Session
from knowledge_service.search.ranking.near_duplicates import Folder
from knowledge_service.search.ranking.ranking import Evidence, Ranked, Uses

# Of the best by text so many are read at once, at least twice the limit; when filters leave too few
# of them, more are.
_BATCH, _MOST = 48, 20_000
# What stands so near to so many of the best may be looked at: so many, which match best together
# with what stands beside them.
_BESIDE_OF, _REACH, _MOST_BESIDE = 32, 3, 48
_LINKS_OF = 10
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


class Shelf(Protocol):
    """What a store knows of the visible scopes at one moment."""

    @property
    def paths(self) -> Mapping[int, str]:
        """Return the scopes by number."""
        ...

    def scores(self, terms: Mapping[str, float]) -> Scores:
        """Score every fact by its text."""
        ...

    def rows(self, numbers: Sequence[int]) -> Iterable[Candidate]:
        """Read rows of facts, in any order."""
        ...

    def on_keys(self, rows: Sequence[Candidate]) -> Iterable[Candidate]:
        """Read the live facts of all scopes that have a key of these."""
        ...

    def linked(self, numbers: Sequence[int]) -> Iterable[tuple[int, int]]:
        """Read live links of these facts as pairs: the fact, and another of a visible scope."""
        ...

    def meaning(self) -> Mapping[int, float]:
        """Return the facts nearest in meaning with their similarity; empty without embeddings."""
        ...

    def uses(self, numbers: Sequence[int]) -> Mapping[int, Uses]:
        """Count the outcomes that facts were in front of, as far as the reader may see them."""
        ...

    def rates(self, scope_nos: Sequence[int]) -> Mapping[int, float]:
        """Return the success rates of scopes, as far as the reader may see them."""
        ...


@dataclass
class Watch:
    """Looks at what becomes of one fact: `said` is the stage that decided, and why."""

    number: int
    said: tuple[str, str] = ("no-match", "it shares no word with the question")

    def tell(self, number: int, stage: str, why: str) -> None:
        """Note what became of a fact, if it is the one."""
        if number == self.number:
            self.said = (stage, why)


@dataclass(frozen=True)
class Inquiry:
    """What is looked for. Without `now`, nothing is counted from the present."""

    question: str
    limit: int
    filters: Filters = field(default_factory=Filters)
    now: datetime | None = None


def find(shelf: Shelf, inquiry: Inquiry, watch: Watch | None = None) -> list[Ranked]:
    """Return the best facts, at most `limit`."""
    watching = watch or Watch(-1)
    filters = inquiry.filters
    now = filters.valid_at or filters.known_at or inquiry.now or _LONG_AGO
    question = parser.parse(inquiry.question, now)
    meaning = shelf.meaning()
    scores = shelf.scores(question.terms)
    rows, text, place = _by_text(shelf, scores, inquiry, watching)
    tied = _beside(shelf, scores, filters, (rows, text, place))
    known = len(rows)
    missing = [number for number in meaning if number not in rows]
    rows |= _served(shelf.rows(missing), filters, watching) if missing else {}
    linked = _linked(shelf, rows, text, filters)
    near = {number: value for number, value in meaning.items() if number in rows}
    tied = tied if len(rows) == known else None
    evidence = Evidence(rows, text, place, linked, near, tied=tied)
    ranked = ranking.rank(question, evidence, now, size=max(_BATCH, 2 * inquiry.limit))
    ranked = _used(shelf, evidence, ranked)
    return _folded(shelf, rows, ranked, inquiry, watching)


Found = tuple[dict[int, Candidate], dict[int, float], dict[int, int]]


def _by_text(shelf: Shelf, scores: Scores, inquiry: Inquiry, watch: Watch) -> Found:
    """Read candidates best first, until enough pass the filters."""
    rows: dict[int, Candidate] = {}
    text: dict[int, float] = {}
    place: dict[int, int] = {}
    done, size = 0, max(_BATCH, 2 * inquiry.limit)
    while True:
        numbers, spots = scores.best(size)
        found = dict(zip(numbers[done:size].tolist(), spots[done:size].tolist(), strict=True))
        rows |= _served(shelf.rows(list(found)), inquiry.filters, watch)
        for number, spot in found.items():
            if number in rows:
                text[number], place[number] = float(scores.values[spot]), spot
        done += len(found)
        if done < size or len(rows) >= inquiry.limit or size >= _MOST:
            break
        size = min(size * 4, _MOST)
    is_silent = watch.number >= 0 and watch.said[0] == "no-match" and watch.number not in rows
    spot = scores.place(watch.number) if is_silent else None
    if spot is not None and scores.values[spot] > 0:
        watch.tell(watch.number, "candidates", f"its words match less than those of {done} others")
    return rows, text, place


def _served(rows: Iterable[Candidate], filters: Filters, watch: Watch) -> dict[int, Candidate]:
    found = {}
    for row in rows:
        refused = recall_filters.exclusion_reason(row, filters)
        if refused is None:
            found[row.number] = row
        else:
            watch.tell(row.number, "filters", refused)
    return found


def _beside(
    shelf: Shelf, scores: Scores, filters: Filters, found: Found
) -> Mapping[int, Session] | None:
    """Add what stands beside the best in the same session; adds to `found` in place.

    Returns the sessions of all rows, unless it added some.
    """
    rows, text, place = found
    best = sorted(text, key=lambda number: (-text[number], number))[:_BESIDE_OF]
    tied = sessions.of_all(rows.values())
    near: set[int] = set()
    names = set()
    for number in best:
        name = tied.get(number)
        if name is not None:
            names.add(name)
            near.update(range(place[number] - _REACH, place[number] + _REACH + 1))
    end = len(scores.values)
    near.difference_update(place.values(), range(-_REACH, 0), range(end, end + _REACH))
    if not near:
        return tied
    count = len(rows)
    spots = _likeliest(scores, sorted(near))
    wanted = dict(zip(scores.numbers(spots).tolist(), spots.tolist(), strict=True))
    fresh = [number for number in wanted if number not in rows]
    for row in shelf.rows(fresh) if fresh else ():
        if sessions.may_be_of(row) in names and recall_filters.is_match(row, filters):
            spot = wanted[row.number]
            rows[row.number], place[row.number] = row, spot
            text[row.number] = float(scores.values[spot])
    return tied if len(rows) == count else None


def _likeliest(scores: Scores, near: Sequence[int]) -> NDArray[np.intp]:
    """Choose of some places those whose facts, with what stands beside them, match best."""
    spots = np.array(near, dtype=np.intp)
    if len(spots) <= _MOST_BESIDE:
        return spots
    together = scores.values[spots]
    for step, weight in ranking.BESIDE:
        beside = spots + step
        is_there = (beside >= 0) & (beside < len(scores.values))
        together[is_there] += weight * scores.values[beside[is_there]]
    spots = spots[np.lexsort((spots, -together))[:_MOST_BESIDE]]
    spots.sort()
    return spots


def _linked(
    shelf: Shelf, rows: dict[int, Candidate], text: Mapping[int, float], filters: Filters
) -> dict[int, list[int]]:
    """Find what the best are linked with; adds their rows in place."""
    best = sorted(text, key=lambda number: (-text[number], number))[:_LINKS_OF]
    found: dict[int, list[int]] = {}
    for number, other in shelf.linked(best):
        found.setdefault(other, []).append(number)
    fresh = [number for number in found if number not in rows]
    for row in shelf.rows(fresh) if fresh else ():
        if recall_filters.is_match(row, filters):
            rows[row.number] = row
    return {number: others for number, others in found.items() if number in rows}


def _used(shelf: Shelf, evidence: Evidence, ranked: list[Ranked]) -> list[Ranked]:
    """Weigh facts by the outcomes of the runs that they were in front of."""
    uses = shelf.uses([each.number for each in ranked])
    if not uses:
        return ranked
    scopes = sorted({evidence.rows[number].scope_no for number in uses})
    told = Evidence(evidence.rows, {}, uses=uses, rates=shelf.rates(scopes))
    return ranking.with_use(ranked, told)


def _folded(
    shelf: Shelf,
    rows: Mapping[int, Candidate],
    ranked: Sequence[Ranked],
    inquiry: Inquiry,
    watch: Watch,
) -> list[Ranked]:
    folder = Folder(shelf.paths)
    keyed = [rows[each.number] for each in ranked[: 2 * inquiry.limit] if rows[each.number].key]
    if keyed and len(shelf.paths) > 1:
        nearer = (
            row for row in shelf.on_keys(keyed) if recall_filters.is_match(row, inquiry.filters)
        )
        folder.know(nearer)
    kept: list[Ranked] = []
    for place, each in enumerate(ranked, 1):
        row = rows[each.number]
        over = folder.overridden_by(row)
        if over is not None:
            watch.tell(each.number, "overridden", "a nearer scope has a fact on the same key")
            continue
        if len(kept) == inquiry.limit:
            watch.tell(each.number, "limit", f"it comes at place {place}, after the limit")
            if watch.number < 0:
                break
            continue
        if folder.same_as(row) is not None:
            watch.tell(each.number, "folded", "a better one says nearly the same")
            continue
        watch.tell(each.number, "returned", f"it comes at place {len(kept) + 1}")
        kept.append(each)
    return kept
