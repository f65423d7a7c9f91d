"""What ranking reads, over tables, in one snapshot and for one reader.

Narrow rows only: whole facts are read for what is returned. Every query is bound to the visible
scopes, or to facts that were found in these.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import apsw

from knowledge_client.models import Fact
from knowledge_service.domain.facts import canonical, key_hash
from knowledge_service.event_log import times
from knowledge_service.search.postings.cache import Kept
from knowledge_service.search.ranking import bm25, candidates, ranking
from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.search.ranking.ranking import Uses
from knowledge_service.store.sqlite import postings
from knowledge_service.store.sqlite.repositories import base, fact_rows, link_traversal, vectors

_COLUMNS = f"""f.fact_no, f.scope_no, f.kind, f.title, f.content, f.tags, f.subject, f.predicate,
  f.about, f.position, f.source, f.confidence, f.lifecycle, f.review, f.expires_at, f.valid_from,
  f.valid_until, f.recorded_at, f.closed_at, f.flags,
  CASE WHEN octet_length(f.data) <= {candidates.MOST_DATA} THEN f.data END"""
_ROWS = f"SELECT {_COLUMNS} FROM fact f WHERE f.fact_no IN (SELECT value FROM json_each(?))"
_ON_KEY = f"""SELECT {_COLUMNS} FROM fact f
  WHERE f.scope_no = ? AND f.key_hash = ? AND f.lifecycle = 'live'"""
_KEYED = "SELECT fact_no FROM fact WHERE scope_no = ? AND key_hash = ?"
# What is superseded or contradicted stands for itself; every other link brings the other end along.
_LINKED = tuple(
    f"""SELECT l.{own}_no, l.{other}_no, f.scope_no
  FROM link l JOIN fact f ON f.fact_no = l.{other}_no
  WHERE l.{own}_no IN (SELECT value FROM json_each(?1)) AND l.closed_at IS NULL
  AND l.type NOT IN ('supersedes', 'contradicts', 'promoted_from')"""
    for own, other in (("from", "to"), ("to", "from"))
)
_LINKED_SEEN = tuple(
    f"""SELECT l.{own}_no, l.{other}_no, l.{other}_scope FROM json_each(?1) n
  CROSS JOIN json_each(?2) s CROSS JOIN link l INDEXED BY {index}
  ON l.{own}_no = n.value AND l.{other}_scope = s.value WHERE l.closed_at IS NULL
  AND l.type NOT IN ('supersedes', 'contradicts', 'promoted_from')"""
    for own, other, index in (("from", "to", "link_out"), ("to", "from", "link_in"))
)
_LIVE, _LIVE_THEN = "closed_at IS NULL", "closed_at IS NULL AND l.recorded_at <= ?3"
_USES = """SELECT fact_no, observer_no, kind, count FROM usage INDEXED BY usage_outcome
  WHERE fact_no IN (SELECT value FROM json_each(?)) AND kind IN ('succeeded', 'failed')"""
_RATES = """SELECT scope_no, observer_no, kind, count FROM scope_usage
  WHERE scope_no IN (SELECT value FROM json_each(?)) AND kind IN ('succeeded', 'failed')"""
# Most scopes that recalled a fact have no outcomes: they are filtered out first.
_USES_SEEN = """SELECT u.fact_no, u.observer_no, u.kind, u.count FROM (
    SELECT s.value AS observer_no FROM json_each(?2) s WHERE EXISTS (
      SELECT 1 FROM usage INDEXED BY usage_seen WHERE observer_no = s.value
      AND kind IN ('succeeded', 'failed'))) o
  CROSS JOIN json_each(?1) n CROSS JOIN usage u INDEXED BY usage_seen
  ON u.observer_no = o.observer_no AND u.fact_no = n.value
  WHERE u.kind IN ('succeeded', 'failed')"""
_RATES_SEEN = """SELECT u.scope_no, u.observer_no, u.kind, u.count FROM json_each(?1) n
  CROSS JOIN json_each(?2) s CROSS JOIN scope_usage u
  ON u.scope_no = n.value AND u.observer_no = s.value WHERE u.kind IN ('succeeded', 'failed')"""
_MANY_USES = """SELECT n.value FROM json_each(?1) n WHERE EXISTS(SELECT 1 FROM usage
  INDEXED BY usage_outcome WHERE fact_no = n.value AND kind IN ('succeeded', 'failed')
  LIMIT 1 OFFSET ?2)"""
_MANY_RATES = """SELECT n.value FROM json_each(?1) n WHERE EXISTS(SELECT 1 FROM scope_usage
  WHERE scope_no = n.value LIMIT 1 OFFSET ?2)"""


@dataclass(frozen=True)
class Vector:
    """A question's vector, and the model that made it."""

    model: str
    values: Sequence[float]


@dataclass(frozen=True)
class Reading:
    """For whom a question is asked.

    Usage counts when its observer is among `observers`; queries name `asked_observers` and
    `asked_scopes`.
    """

    observers: Container[int]
    asked_observers: base.ScopeFilter
    asked_scopes: base.ScopeFilter


class Shelf:
    """The `search.pipeline.Shelf` of one snapshot; `paths` are the scopes that are searched.

    With the question's `vector`, facts near in meaning are found, too; with `kept`, what other
    questions decoded is used.
    """

    vector: Vector | None = None
    kept: Kept | None = None

    def __init__(
        self,
        connection: apsw.Connection,
        paths: Mapping[int, str],
        reading: Reading,
        known_at: datetime | None,
    ) -> None:
        self.paths = paths
        self._connection = connection
        self._reading = reading
        self._known_at = known_at
        self._scores: bm25.Scores | None = None

    def scores(self, terms: Mapping[str, float]) -> bm25.Scores:
        """Score every fact by its text."""
        self._scores = postings.search(self._connection, self.paths, terms, self.kept)
        return self._scores

    def words(self, numbers: Sequence[int]) -> dict[int, dict[str, float]]:
        """Return what each word of the question gave to the text score of facts."""
        return {
            number: {"=" + term.lstrip("="): round(value, 6) for term, value in found.items()}
            for number in numbers
            if self._scores and (found := self._scores.parts(number))
        }

    def rows(self, numbers: Sequence[int]) -> Iterable[Candidate]:
        """Read rows as they are, or as they were known at a moment."""
        if self._known_at is not None:
            found = fact_rows.by_numbers(self._connection, numbers, self._known_at)
            number_of = {path: number for number, path in self.paths.items()}
            return [_then(number, number_of[fact.scope], fact) for number, fact in found.items()]
        cursor: Any = self._connection.execute(_ROWS, (json.dumps(numbers),))
        return map(Candidate._make, cursor)

    def on_keys(self, keyed: Sequence[Candidate]) -> Iterator[Candidate]:
        """Read the facts of the visible scopes, live now or then, that have a key of these."""
        hashes = dict.fromkeys(key_hash(row.subject, row.predicate) for row in keyed)
        for value in hashes:
            for scope_no in self.paths:
                cursor: Any
                if self._known_at is None:
                    cursor = self._connection.execute(_ON_KEY, (scope_no, value))
                    yield from map(Candidate._make, cursor)
                else:
                    cursor = self._connection.execute(_KEYED, (scope_no, value))
                    then = self.rows([number for (number,) in cursor])
                    yield from (row for row in then if row.lifecycle == "live")

    def linked(self, numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Read links to facts of the visible scopes."""
        found: set[tuple[int, int]] = set()
        for by_fact, by_scope, crowded in zip(
            _LINKED, _LINKED_SEEN, link_traversal.CROWDED, strict=True
        ):
            scopes = self._reading.asked_scopes
            few, many = scopes.split(self._connection, crowded, numbers)
            for sql, chosen in ((by_fact, few), (by_scope, many)):
                if chosen:
                    rows_ = self._execute_live(sql, (json.dumps(chosen), scopes.scopes))
                    found.update(row[:2] for row in rows_ if row[2] in self.paths)
        return iter(sorted(found))

    def _execute_live(self, sql: str, bindings: tuple[Any, ...]) -> Iterator[tuple[int, int, int]]:
        """Run a query about links that are live, now or at the moment asked about."""
        if self._known_at is not None:
            # Apart, since the index does not hold when a link was made.
            sql = sql.replace(_LIVE, _LIVE_THEN)
            bindings = (*bindings, times.to_us(self._known_at))
        elif "?2" not in sql:
            bindings = bindings[:1]
        found: Any = self._connection.execute(sql, bindings)
        return iter(found)

    def meaning(self) -> Mapping[int, float]:
        """Return the facts nearest in meaning, when the question has a vector."""
        asked = self.vector
        if asked is None:
            return {}
        return vectors.nearest(self._connection, self.paths, asked.model, asked.values)

    def uses(self, numbers: Sequence[int]) -> Mapping[int, Uses]:
        """Count the outcomes of facts."""
        return self._counted(_USES, _USES_SEEN, _MANY_USES, numbers)

    def rates(self, scope_nos: Sequence[int]) -> Mapping[int, float]:
        """Return the success rates of scopes."""
        found = self._counted(_RATES, _RATES_SEEN, _MANY_RATES, scope_nos)
        return {number: ranking.success_rate(uses) for number, uses in found.items()}

    def _counted(
        self, by_fact: str, by_scope: str, crowded: str, numbers: Sequence[int]
    ) -> dict[int, Uses]:
        found: dict[int, dict[str, int]] = {}
        observers = self._reading.asked_observers
        few, many = observers.split(self._connection, crowded, numbers)
        rows_: list[Any] = []
        if few:
            rows_ += self._connection.execute(by_fact, (json.dumps(few),))
        if many:
            rows_ += self._connection.execute(by_scope, (json.dumps(many), observers.scopes))
        for number, observer, kind, count in rows_:
            if observer in self._reading.observers:
                kinds = found.setdefault(number, {})
                kinds[kind] = kinds.get(kind, 0) + count
        return {number: Uses(**kinds) for number, kinds in found.items()}


def _then(number: int, scope_no: int, fact: Fact) -> Candidate:
    source = fact.source.model_dump(mode="json", exclude_none=True)
    return Candidate(
        number, scope_no, fact.kind, fact.title, fact.content, canonical(fact.tags), fact.subject,
        fact.predicate, fact.about, fact.position, canonical(source), fact.confidence,
        fact.lifecycle, fact.review, times.to_us(fact.expires_at), times.to_us(fact.valid_from),
        times.to_us(fact.valid_until), times.to_us(fact.recorded_at), times.to_us(fact.closed_at),
        canonical(fact.flags),
        candidates.short(None if fact.data is None else canonical(fact.data)),
    )  # fmt: skip
