"""What a recall reads: candidates, postings and usage, in one snapshot for one reader.

Rows are narrow: whole facts are read only for results. Every query is bound to the visible scopes,
or to facts that were read from them.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Any

import apsw
import msgspec

from knowledge_client.models import Fact
from knowledge_service.domain.facts import canonical, key_hash
from knowledge_service.event_log import times
from knowledge_service.search.postings.cache import LruCache
from knowledge_service.search.ranking import bm25, candidates, ranking
from knowledge_service.search.ranking.bm25 import Related
from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.search.ranking.ranking import OutcomeCounts
from knowledge_service.search.snapshot import MOST_LINKED, Matches, RowBatch, RowRequest
from knowledge_service.store.sqlite.db import posting_table
from knowledge_service.store.sqlite.json_lists import json_list
from knowledge_service.store.sqlite.repositories import base, fact_rows, link_traversal, vectors

_COLUMNS = f"""f.fact_no, f.scope_no, f.kind, f.title, f.content, f.tags, f.subject, f.predicate,
  f.about, f.position, f.source, f.confidence, f.lifecycle, f.review, f.expires_at, f.valid_from,
  f.valid_until, f.recorded_at, f.closed_at, f.flags,
  CASE WHEN octet_length(f.data) <= {candidates.MOST_DATA} THEN f.data END,
  f.schema"""
_WITHOUT_DATA, _WITH_DATA = (
    f"{_COLUMNS}, {data}, {fact_rows.TITLE_OF}" for data in ("NULL", "f.data")
)
_ROWS = """SELECT json_group_array(json_array({})) FROM fact f
  WHERE f.fact_no IN (SELECT value FROM json_each(?))"""
_CANDIDATES = msgspec.json.Decoder(list[Candidate])
_SAME_KEY = """SELECT {} FROM json_each(?1) s CROSS JOIN json_each(?2) k
  CROSS JOIN fact f INDEXED BY fact_key ON f.scope_no = s.value AND f.key_hash = unhex(k.value)
  WHERE f.lifecycle = 'live'"""
_SAME_KEY_NUMBERS = """SELECT f.fact_no FROM json_each(?1) s CROSS JOIN json_each(?2) k
  CROSS JOIN fact f INDEXED BY fact_key ON f.scope_no = s.value AND f.key_hash = unhex(k.value)"""
# Links of these three types add nothing; every other link adds the fact at its other end. `_links`
# depends on the order of the rows, which `INDEXED BY` and `CROSS JOIN` determine.
_ENDS = (("from", "to", "link_out"), ("to", "from", "link_in"))
_LINKED = tuple(
    f"""SELECT l.{own}_no, l.{other}_no, l.{other}_scope FROM json_each(?1) n
  CROSS JOIN link l INDEXED BY {index} ON l.{own}_no = n.value WHERE l.closed_at IS NULL
  AND l.type NOT IN ('supersedes', 'contradicts', 'promoted_from')"""
    for own, other, index in _ENDS
)
_LINKED_SEEN = tuple(
    f"""SELECT l.{own}_no, l.{other}_no, l.{other}_scope FROM json_each(?1) n
  CROSS JOIN json_each(?2) s CROSS JOIN link l INDEXED BY {index}
  ON l.{own}_no = n.value AND l.{other}_scope = s.value WHERE l.closed_at IS NULL
  AND l.type NOT IN ('supersedes', 'contradicts', 'promoted_from')"""
    for own, other, index in _ENDS
)
# The links between facts and candidates: one lookup for each pair.
_LINKED_CANDIDATES = tuple(
    f"""SELECT l.{own}_no, l.{other}_no, l.{other}_scope FROM json_each(?1) n
  CROSS JOIN json_each(?2) c CROSS JOIN link l INDEXED BY {index} ON l.{own}_no = n.value
  AND l.{other}_scope = c.value ->> 0 AND l.{other}_no = c.value ->> 1 WHERE l.closed_at IS NULL
  AND l.type NOT IN ('supersedes', 'contradicts', 'promoted_from')"""
    for own, other, index in _ENDS
)
_LIVE, _LIVE_AS_OF = "closed_at IS NULL", "closed_at IS NULL AND l.recorded_at <= ?3"
_USES = """SELECT fact_no, observer_no, kind, count FROM usage INDEXED BY usage_outcome
  WHERE fact_no IN (SELECT value FROM json_each(?)) AND kind IN ('succeeded', 'failed')"""
_RATES = """SELECT scope_no, observer_no, kind, count FROM scope_usage
  WHERE scope_no IN (SELECT value FROM json_each(?)) AND kind IN ('succeeded', 'failed')"""
# Sums for a reader of everything, because a popular fact may have thousands of observers, each with
# an entry. Triggers keep them (migration 25).
_USES_OF_ALL = """SELECT fact_no, kind, count FROM fact_outcome
  WHERE fact_no IN (SELECT value FROM json_each(?))"""
_RATES_OF_ALL = """SELECT scope_no, kind, count FROM scope_outcome
  WHERE scope_no IN (SELECT value FROM json_each(?))"""
# Most scopes that recalled a fact have no outcomes, so they are filtered out first.
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
class _OutcomeQueries:
    """How outcomes of facts, or of scopes, are counted.

    Attributes:
        of_all: sums over all observers, for readers of everything.
        by_number: the entries of all observers, for numbers with few entries.
        by_observer: the entries of the visible observers, for numbers with many entries.
        crowded: selects the numbers with many entries.
    """

    of_all: str
    by_number: str
    by_observer: str
    crowded: str


_OF_FACTS = _OutcomeQueries(_USES_OF_ALL, _USES, _USES_SEEN, _MANY_USES)
_OF_SCOPES = _OutcomeQueries(_RATES_OF_ALL, _RATES, _RATES_SEEN, _MANY_RATES)


@dataclass(frozen=True)
class Vector:
    """A query's vector, and the model that computed it."""

    model: str
    values: Sequence[float]


@dataclass(frozen=True)
class ReaderScopes:
    """The scopes of a query's reader.

    Usage counts if its observer is one of `observers`. If `observer_filter` names no scopes, the
    observer may be any scope that is not retired. Queries use `observer_filter` and `scope_filter`.
    """

    observers: Container[int]
    observer_filter: base.ScopeFilter
    scope_filter: base.ScopeFilter


class SqliteSnapshot:
    """The `snapshot.Snapshot` of one read transaction; `paths` are the searched scopes.

    With the query's `vector`, facts with near embeddings match, too. With `has_facets`, rows have
    all of their data. Without `drafts`, nothing that was rejected since is found as of an earlier
    time. `cache` holds the postings that other queries decoded.
    """

    has_facets: bool = False
    drafts: bool = True
    vector: Vector | None = None
    cache: LruCache | None = None

    def __init__(
        self,
        connection: apsw.Connection,
        paths: Mapping[int, str],
        reader: ReaderScopes,
        known_at: datetime | None,
    ) -> None:
        self.paths = paths
        self._connection = connection
        self._reading = reader
        self._known_at = known_at

    def match(self, terms: Mapping[str, float], related: Related) -> Matches:
        """Score every document, and compare vectors when the query has one."""
        similarities: Mapping[int, float] = {}
        if self.vector is not None:
            similarities = vectors.nearest(
                self._connection, self.paths, self.vector.model, self.vector.values
            )
        return Matches(self.scores(terms, related), similarities)

    def scores(self, terms: Mapping[str, float], related: Related | None = None) -> bm25.Scores:
        """Score every document by its text."""
        return posting_table.search(self._connection, self.paths, terms, self.cache, related)

    def rows(self, request: RowRequest) -> RowBatch:
        """Read rows, and the links, outcomes and facts with the same key that the request names."""
        links = self._links(request.links_of, request.candidates) if request.links_of else []
        numbers = dict.fromkeys(request.numbers)
        numbers |= {
            linked_number: None
            for _, linked_number in links
            if linked_number not in request.candidates
        }
        batch = RowBatch(self.candidates(list(numbers)) if numbers else [], links)
        if request.outcomes_of:
            outcomes, success_rates = self._outcomes(request.outcomes_of)
            batch = replace(batch, outcomes=outcomes, success_rates=success_rates)
        if request.keys_of:
            batch = replace(batch, same_key=self._same_key(request.keys_of))
        return batch

    def candidates(self, numbers: Sequence[int]) -> list[Candidate]:
        """Read rows as they are, or as they were known at the requested time."""
        if self._known_at is not None:
            facts = fact_rows.by_numbers(
                self._connection, numbers, self._known_at, drafts=self.drafts
            )
            number_of = {path: number for number, path in self.paths.items()}
            return [
                _candidate_as_of(
                    number, number_of[fact.scope], fact, has_data=self.has_facets
                )._replace(title_of=fact_rows.title_of(self._connection, fact))
                for number, fact in facts.items()
            ]
        sql = self._select(_ROWS)
        texts = fact_rows.json_texts(self._connection, sql, numbers)
        return list(chain.from_iterable(map(_CANDIDATES.decode, texts)))

    def _select(self, sql: str) -> str:
        return sql.format(_WITH_DATA if self.has_facets else _WITHOUT_DATA)

    def _outcomes(
        self, rows: Sequence[Candidate]
    ) -> tuple[Mapping[int, OutcomeCounts], Mapping[int, float]]:
        """Count the outcomes of facts, and return the success rates of their scopes."""
        outcomes = self._count(_OF_FACTS, [row.number for row in rows])
        if not outcomes:
            return {}, {}
        scope_nos = sorted({row.scope_no for row in rows if row.number in outcomes})
        counts = self._count(_OF_SCOPES, scope_nos)
        return outcomes, {
            number: ranking.success_rate(outcome_counts)
            for number, outcome_counts in counts.items()
        }

    def _same_key(self, rows: Sequence[Candidate]) -> list[Candidate]:
        """Read visible facts, live now or at the requested time, that share a key with a row."""
        keys = {key.hex() for row in rows if (key := key_hash(row.subject, row.predicate))}
        bindings = json_list(list(self.paths)), json_list(sorted(keys))
        if self._known_at is None:
            cursor: Any = self._connection.execute(self._select(_SAME_KEY), bindings)
            return list(map(Candidate._make, cursor))
        numbers = [number for (number,) in self._connection.execute(_SAME_KEY_NUMBERS, bindings)]
        return [row for row in self.candidates(numbers) if row.lifecycle == "live"]

    def _links(
        self, numbers: Sequence[int], candidates_read: Mapping[int, Candidate]
    ) -> list[tuple[int, int]]:
        """Read links to visible facts: all links to candidates, and the first of the others."""
        pairs: set[tuple[int, int]] = set()
        scopes = self._reading.scope_filter
        for by_fact, by_scope, to_candidates, crowded in zip(
            _LINKED, _LINKED_SEEN, _LINKED_CANDIDATES, link_traversal.CROWDED, strict=True
        ):
            by_fact_numbers, by_scope_numbers = scopes.split(self._connection, crowded, numbers)
            for sql, chosen in ((by_fact, by_fact_numbers), (by_scope, by_scope_numbers)):
                first, cut_off = self._first_linked(sql, chosen)
                pairs |= first
                if cut_off:
                    ends = [(row.scope_no, row.number) for row in candidates_read.values()]
                    bindings = (json_list(cut_off), json_list(ends))
                    rows = self._execute_live(to_candidates, bindings)
                    pairs.update((number, candidate_no) for number, candidate_no, _ in rows)
        return sorted(pairs)

    def _first_linked(
        self, sql: str, numbers: Sequence[int]
    ) -> tuple[set[tuple[int, int]], list[int]]:
        """Read the first links of each fact, by the scope and then the number of the other end.

        Also return the facts that have `MOST_LINKED` of them, and may have more. The rows come fact
        by fact, so such a fact ends the query, and the next query continues with the fact after it.
        """
        pairs: set[tuple[int, int]] = set()
        cut_off: list[int] = []
        rest = list(numbers)
        while rest:
            current, linked = -1, set[int]()
            bindings = (json_list(rest), self._reading.scope_filter.scopes)
            rest_after: list[int] = []
            for number, linked_number, scope_no in self._execute_live(sql, bindings):
                if scope_no not in self.paths:
                    continue
                if number != current:
                    current, linked = number, set()
                linked.add(linked_number)
                pairs.add((number, linked_number))
                if len(linked) == MOST_LINKED:
                    cut_off.append(number)
                    rest_after = rest[rest.index(number) + 1 :]
                    break
            rest = rest_after
        return pairs, cut_off

    def _execute_live(self, sql: str, bindings: tuple[Any, ...]) -> Iterator[tuple[int, int, int]]:
        """Run a query for links that are live now, or were at the requested time."""
        if self._known_at is not None:
            # A separate query, because the index does not contain the time at which a link was
            # created.
            sql = sql.replace(_LIVE, _LIVE_AS_OF)
            bindings = (*bindings, times.to_us(self._known_at))
        elif "?2" not in sql:
            bindings = bindings[:1]
        cursor: Any = self._connection.execute(sql, bindings)
        return iter(cursor)

    def _count(self, queries: _OutcomeQueries, numbers: Sequence[int]) -> dict[int, OutcomeCounts]:
        """Count the outcomes of facts or scopes, as far as the reader may see them."""
        counts: dict[int, dict[str, int]] = {}
        for number, kind, count in self._visible_outcomes(queries, numbers):
            kinds = counts.setdefault(number, {})
            kinds[kind] = kinds.get(kind, 0) + count
        return {number: OutcomeCounts(**kinds) for number, kinds in counts.items()}

    def _visible_outcomes(
        self, queries: _OutcomeQueries, numbers: Sequence[int]
    ) -> list[tuple[int, str, int]]:
        observers = self._reading.observer_filter
        if observers.scopes is None:
            cursor: Any = self._connection.execute(queries.of_all, (json_list(numbers),))
            return list(cursor)
        few, many = observers.split(self._connection, queries.crowded, numbers)
        rows: list[Any] = []
        if few:
            rows += self._connection.execute(queries.by_number, (json_list(few),))
        if many:
            bindings = (json_list(many), observers.scopes)
            rows += self._connection.execute(queries.by_observer, bindings)
        visible = self._reading.observers
        return [
            (number, kind, count) for number, observer, kind, count in rows if observer in visible
        ]


def _candidate_as_of(number: int, scope_no: int, fact: Fact, *, has_data: bool) -> Candidate:
    data_json = None if fact.data is None else canonical(fact.data)
    source = fact.source.model_dump(mode="json", exclude_none=True)
    return Candidate(
        number, scope_no, fact.kind, fact.title, fact.content, canonical(fact.tags), fact.subject,
        fact.predicate, fact.about, fact.position, canonical(source), fact.confidence,
        fact.lifecycle, fact.review, times.to_us(fact.expires_at), times.to_us(fact.valid_from),
        times.to_us(fact.valid_until), times.to_us(fact.recorded_at), times.to_us(fact.closed_at),
        canonical(fact.flags),
        candidates.short(data_json), fact.schema_, data_json if has_data else None,
    )  # fmt: skip
