"""The provenance and the impact of a fact, read from tables in one snapshot."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import apsw

from knowledge_client.models import (
    ConfirmationRecord,
    Correction,
    Fact,
    FactProvenance,
    Impact,
    Link,
    PromotionRecord,
    RecallExposure,
    Receipt,
    ReviewRecord,
    Run,
)
from knowledge_service.domain.access_control import PLATFORM, View, realm_of
from knowledge_service.domain.run_reports import RunKey, key_of
from knowledge_service.event_log import times
from knowledge_service.ports import AuditReader
from knowledge_service.store.sqlite.json_lists import json_list
from knowledge_service.store.sqlite.repositories import (
    aliases,
    base,
    fact_rows,
    link_rows,
    link_traversal,
    runs,
    usage,
)

_DERIVING = json_list(["derived_from", "promoted_from", "supersedes"])
_DERIVED = json_list(["derived_from", "promoted_from"])
# A longer chain is of no use to a reader; the bound ends a chain that links facts in a circle.
_LONGEST = 1_000

_BACK_BY_FACT = f"""SELECT {link_rows.COLUMNS}, l.to_no, b.scope_no, b.review
  {link_rows.JOINED}
  WHERE l.from_no IN (SELECT value FROM json_each(?1)) AND l.closed_at IS NULL
  AND l.type IN (SELECT value FROM json_each(?2)) ORDER BY l.id"""
_BACK_BY_SCOPE = f"""SELECT {link_rows.COLUMNS}, l.to_no, b.scope_no, b.review
  FROM json_each(?1) n CROSS JOIN json_each(?3) s CROSS JOIN link l INDEXED BY link_out
  ON l.from_no = n.value AND l.to_scope = s.value
  JOIN fact a ON a.fact_no = l.from_no JOIN fact b ON b.fact_no = l.to_no
  WHERE l.closed_at IS NULL AND l.type IN (SELECT value FROM json_each(?2)) ORDER BY l.id"""
_FORTH_BY_FACT = """SELECT a.id, l.from_no, a.scope_no, a.review
  FROM link l JOIN fact a ON a.fact_no = l.from_no
  WHERE l.to_no IN (SELECT value FROM json_each(?1)) AND l.closed_at IS NULL
  AND l.type IN (SELECT value FROM json_each(?2)) ORDER BY a.id"""
_FORTH_BY_SCOPE = """SELECT a.id, l.from_no, a.scope_no, a.review FROM json_each(?1) n
  CROSS JOIN json_each(?3) s CROSS JOIN link l INDEXED BY link_in
  ON l.to_no = n.value AND l.from_scope = s.value JOIN fact a ON a.fact_no = l.from_no
  WHERE l.closed_at IS NULL AND l.type IN (SELECT value FROM json_each(?2)) ORDER BY a.id"""
_PROMOTIONS_BY_FACT = """SELECT a.id, b.id, p.rule, p.actor, p.at, p.undone_at,
    a.scope_no, a.review, b.scope_no, b.review
  FROM promotion p JOIN fact a ON a.fact_no = p.origin_no JOIN fact b ON b.fact_no = p.copy_no
  WHERE p.origin_no = ?1 OR p.copy_no = ?1 ORDER BY p.id"""
_PROMOTIONS_BY_SCOPE = _PROMOTIONS_BY_FACT.replace(
    "p.origin_no = ?1 OR p.copy_no = ?1",
    """p.id IN (SELECT id FROM promotion WHERE origin_no = ?1
    UNION SELECT x.id FROM json_each(?2) s CROSS JOIN promotion x INDEXED BY promotion_copy
      ON x.copy_no = ?1 AND x.origin_scope = s.value)""",
)
_CLOSED = """SELECT lifecycle, closed_reason, closed_by, closed_at FROM fact_past
    WHERE fact_no = ?1 AND closed_at IS NOT NULL
  UNION SELECT lifecycle, closed_reason, closed_by, closed_at FROM fact
    WHERE fact_no = ?1 AND closed_at IS NOT NULL ORDER BY closed_at"""
_REPLACING_BY_FACT = """SELECT a.id, a.scope_no, a.review
  FROM link l JOIN fact a ON a.fact_no = l.from_no
  WHERE l.to_no = ? AND l.type = 'supersedes' AND l.closed_at IS NULL ORDER BY a.id"""
_REPLACING_BY_SCOPE = """SELECT a.id, a.scope_no, a.review FROM json_each(?2) s
  CROSS JOIN link l INDEXED BY link_in ON l.to_no = ?1 AND l.from_scope = s.value
  JOIN fact a ON a.fact_no = l.from_no
  WHERE l.type = 'supersedes' AND l.closed_at IS NULL ORDER BY a.id"""
_CONFIRMATIONS = "SELECT actor, session, at FROM confirmation WHERE fact_no = ? ORDER BY at, seq"
_REVIEWS = """SELECT decision, actor, actor_type, reason, at FROM review WHERE fact_no = ?
  ORDER BY seq"""
_RECEIPTS = """SELECT r.body, o.path FROM receipt r JOIN scope o ON o.scope_no = r.observer_no
  WHERE r.realm_no = ? AND r.run_id = ? AND r.at <= ? AND o.retired_at IS NULL
  ORDER BY r.at, r.id"""
_SERVED_BY_FACT = """SELECT receipt, principal, observer_no, run_id, at FROM served
  WHERE fact_no = ? ORDER BY at DESC, receipt DESC"""
_SERVED_BY_SCOPE = """SELECT v.receipt, v.principal, v.observer_no, v.run_id, v.at
  FROM json_each(?2) s CROSS JOIN served v ON v.fact_no = ?1 AND v.observer_no = s.value
  ORDER BY v.at DESC, v.receipt DESC"""
_MAX_LISTED = "SELECT EXISTS(SELECT 1 FROM {} = ? LIMIT 1 OFFSET ?)"


class _Query(NamedTuple):
    """A query about facts, without and with scopes, and one that selects facts with many rows."""

    by_fact: str
    by_scope: str
    crowded: str


_BACK = _Query(_BACK_BY_FACT, _BACK_BY_SCOPE, link_traversal.CROWDED[0])
_FORTH = _Query(_FORTH_BY_FACT, _FORTH_BY_SCOPE, link_traversal.CROWDED[1])
_PROMOTIONS = _Query(
    _PROMOTIONS_BY_FACT, _PROMOTIONS_BY_SCOPE, _MAX_LISTED.format("promotion WHERE copy_no")
)
_REPLACING = _Query(_REPLACING_BY_FACT, _REPLACING_BY_SCOPE, _MAX_LISTED.format("link WHERE to_no"))
_SERVED = _Query(_SERVED_BY_FACT, _SERVED_BY_SCOPE, _MAX_LISTED.format("served WHERE fact_no"))


class Provenance(base.SqliteRepository):
    """The `ProvenanceStore` port."""

    def why(self, fact_id: str, reader: AuditReader) -> FactProvenance | None:
        """Return the provenance of a visible fact."""
        with self._readers.bulk_connection() as connection:
            visible_fact = _visible(connection, fact_id, reader.view)
            return _why(connection, *visible_fact, reader) if visible_fact else None

    def impact(self, fact_id: str, reader: AuditReader, *, limit: int) -> Impact | None:
        """Return the impact of a visible fact."""
        with self._readers.bulk_connection() as connection:
            visible_fact = _visible(connection, fact_id, reader.view)
            if visible_fact is None:
                return None
            number = visible_fact[0]
            scopes = _Scopes(connection, reader.view)
            recalls, seen_in, has_next = _served(connection, number, reader, scopes, limit)
            promotions = [
                promotion
                for promotion in _promoted(connection, number, scopes)
                if promotion.origin == fact_id
            ]
            return Impact(
                fact=fact_id,
                recalls=recalls,
                runs=seen_in,
                derived=_derived(connection, number, scopes),
                copies=tuple(promotion.copy_ for promotion in promotions),
                usage=usage.usage_of_fact(connection, number, reader.view, scopes.asked),
                truncated=has_next,
            )


class _Scopes:
    """The scopes that a reader sees; `asked` is their form in queries."""

    def __init__(self, connection: apsw.Connection, view: View) -> None:
        self._view = view
        self.paths = base.visible_scopes(connection, view, None)
        self.asked = base.scope_filter(view, self.paths)

    def __contains__(self, number: object) -> bool:
        """Return whether a scope is visible."""
        return number in self.paths

    def shows(self, number: int, review: str) -> bool:
        """Return whether a fact of the scope with this review state is visible."""
        return number in self.paths and self._view.can_read_fact(self.paths[number], review)

    def rows(self, connection: apsw.Connection, query: _Query, number: int) -> Sequence[Any]:
        """Return the rows of one fact."""
        if self.asked.is_named(connection, query.crowded, number):
            return connection.execute(query.by_scope, (number, self.asked.scopes)).fetchall()
        return connection.execute(query.by_fact, (number,)).fetchall()

    def rows_of_all(
        self, connection: apsw.Connection, query: _Query, numbers: Sequence[int], types: str
    ) -> list[Any]:
        """Return the rows of some facts, ordered by their first column."""
        sparse, crowded_numbers = self.asked.split(connection, query.crowded, numbers)
        rows: list[Any] = []
        if sparse:
            rows += connection.execute(query.by_fact, (json_list(sparse), types))
        if crowded_numbers:
            rows += connection.execute(
                query.by_scope, (json_list(crowded_numbers), types, self.asked.scopes)
            )
        return sorted(rows, key=operator.itemgetter(0))


def _visible(connection: apsw.Connection, fact_id: str, view: View) -> tuple[int, Fact] | None:
    number = link_traversal.number_of(connection, fact_id)
    fact = fact_rows.by_numbers(connection, [number]).get(number) if number is not None else None
    if number is None or fact is None or not view.can_read_fact(fact.scope, fact.review):
        return None
    return number, fact


def _why(
    connection: apsw.Connection, number: int, fact: Fact, reader: AuditReader
) -> FactProvenance:
    scopes = _Scopes(connection, reader.view)
    chain, origins = _derivation(connection, number, scopes)
    run = _run(connection, fact, reader.view)
    return FactProvenance(
        fact=fact,
        aliases=aliases.of_fact(connection, fact.id),
        run=run,
        receipts=_receipts(connection, run, fact, reader) if run else (),
        derivation=chain,
        origins=origins,
        promotions=tuple(_promoted(connection, number, scopes)),
        corrections=tuple(_corrections(connection, number, scopes)),
        confirmations=tuple(
            ConfirmationRecord(
                actor=actor, session=_visible_session(connection, fact, session, reader.view),
                at=times.from_us(at),
            )
            for actor, session, at in connection.execute(_CONFIRMATIONS, (number,))
        ),
        reviews=tuple(
            ReviewRecord(decision=row[0], actor=row[1], actor_type=row[2], reason=row[3],
                     at=times.from_us(row[4]))
            for row in connection.execute(_REVIEWS, (number,))
        ),
    )  # fmt: skip


def _served(
    connection: apsw.Connection, number: int, reader: AuditReader, scopes: _Scopes, limit: int
) -> tuple[tuple[RecallExposure, ...], tuple[str, ...], bool]:
    """Return the newest visible recalls, the runs of all of them, and whether there are more."""
    paths = scopes.paths
    exposures: list[RecallExposure] = []
    runs_: dict[str, None] = {}
    has_next = False
    visibility: dict[tuple[int, str], bool] = {}
    rows_ = scopes.rows(connection, _SERVED, number)
    for receipt, principal, observer_no, run_id, at in rows_:
        key = (observer_no, principal)
        if key not in visibility:
            path = paths.get(observer_no)
            visibility[key] = path is not None and reader.can_read_receipt(path, principal)
        if not visibility[key]:
            continue
        if run_id:
            runs_[run_id] = None
        if len(exposures) == limit:
            has_next = True
            continue
        exposures.append(
            RecallExposure.model_construct(
                receipt=receipt, principal=principal, scope=paths[observer_no], run=run_id,
                at=times.from_us(at),
            )
        )  # fmt: skip
    return tuple(exposures), tuple(runs_), has_next


def _run(connection: apsw.Connection, fact: Fact, view: View) -> Run | None:
    for ref in fact.source.refs:
        if ref.type == "run":
            runs_found = _runs_of(connection, fact, ref.id, view)
            if len(runs_found) == 1:
                return runs_found[0]
    return None


def _runs_of(connection: apsw.Connection, fact: Fact, run_id: str, view: View) -> tuple[Run, ...]:
    """Return the visible runs with an id in the fact's realm; for the platform, in any realm."""
    realm = realm_of(fact.scope)
    visible_runs = runs.visible_runs(connection, run_id, view)
    return tuple(run for run in visible_runs if realm in (PLATFORM, realm_of(run.scope)))


def _visible_session(
    connection: apsw.Connection, fact: Fact, session: str | None, view: View
) -> str | None:
    """Return a session's name unless it is a run that the reader may not see.

    Sessions of the platform's facts belong to any realm. Only runs that the reader sees are named,
    so that the answer does not depend on the content of other realms.
    """
    if session is None or _runs_of(connection, fact, session, view):
        return session
    if realm_of(fact.scope) == PLATFORM:
        return session if view.can_read_subtree(PLATFORM) else None
    hidden = runs.find_run(connection, RunKey(realm_of(fact.scope), session))
    return None if hidden else session


def _receipts(
    connection: apsw.Connection, run: Run, fact: Fact, reader: AuditReader
) -> tuple[Receipt, ...]:
    """Return the receipts of the run from before the fact was recorded."""
    columns = runs.run_columns(connection, key_of(run)) or ()
    bindings = (*columns, times.to_us(fact.recorded_at))
    receipts = [
        (Receipt.model_validate_json(body), observer)
        for body, observer in connection.execute(_RECEIPTS, bindings)
    ]
    return tuple(
        receipt
        for receipt, observer in receipts
        if reader.can_read_receipt(observer, receipt.principal)
    )


def _derivation(
    connection: apsw.Connection, number: int, scopes: _Scopes
) -> tuple[tuple[Link, ...], tuple[Fact, ...]]:
    chain: list[Link] = []
    visited, level, order = {number}, [number], list[int]()
    while level and len(visited) < _LONGEST:
        rows = scopes.rows_of_all(connection, _BACK, level, _DERIVING)
        level = []
        for row in rows:
            to_no, scope_no, review = row[-3:]
            if not scopes.shows(scope_no, review):
                continue
            chain.append(link_rows.link_of(row))
            if to_no not in visited:
                visited.add(to_no)
                level.append(to_no)
        order += level
    facts = fact_rows.by_numbers(connection, order)
    return tuple(chain), tuple(facts[fact_no] for fact_no in order)


def _derived(connection: apsw.Connection, number: int, scopes: _Scopes) -> tuple[str, ...]:
    visited, level, fact_ids = {number}, [number], list[str]()
    while level and len(visited) < _LONGEST:
        rows_ = scopes.rows_of_all(connection, _FORTH, level, _DERIVED)
        level = []
        for fact_id, from_no, scope_no, review in rows_:
            if scopes.shows(scope_no, review) and from_no not in visited:
                visited.add(from_no)
                level.append(from_no)
                fact_ids.append(fact_id)
    return tuple(fact_ids)


def _promoted(
    connection: apsw.Connection, number: int, scopes: _Scopes
) -> Iterator[PromotionRecord]:
    for row in scopes.rows(connection, _PROMOTIONS, number):
        if scopes.shows(*row[6:8]) and scopes.shows(*row[8:10]):
            yield PromotionRecord(
                origin=row[0], copy_=row[1], rule=row[2], actor=row[3], at=times.from_us(row[4]),
                undone_at=times.from_us(row[5]),
            )  # fmt: skip


def _corrections(connection: apsw.Connection, number: int, scopes: _Scopes) -> Iterator[Correction]:
    replacing: Sequence[str] = tuple(
        fact_id
        for fact_id, *scope_and_review in scopes.rows(connection, _REPLACING, number)
        if scopes.shows(*scope_and_review)
    )
    for lifecycle, reason, actor, at in connection.execute(_CLOSED, (number,)):
        yield Correction(
            lifecycle=lifecycle, reason=reason, actor=actor, at=times.from_us(at),
            replaced_by=tuple(replacing) if lifecycle == "superseded" else (),
        )  # fmt: skip
