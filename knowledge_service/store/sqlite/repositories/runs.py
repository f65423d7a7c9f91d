"""The run ledger in tables: merged runs and their statistics."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import apsw

from knowledge_client.models import (
    BlueprintName,
    BlueprintStats,
    ParameterStats,
    Run,
    RunIn,
)
from knowledge_service.domain import run_reports, run_statistics
from knowledge_service.domain.access_control import PLATFORM, View, realm_of
from knowledge_service.domain.run_reports import RunKey
from knowledge_service.errors import Conflict, RunOutcomeConflict
from knowledge_service.event_log import times
from knowledge_service.fact_transactions import promote
from knowledge_service.ports import Actor, RunListing
from knowledge_service.store.sqlite.db.transaction import Transaction
from knowledge_service.store.sqlite.json_lists import json_list
from knowledge_service.store.sqlite.repositories import base, run_credit
from knowledge_service.store.sqlite.repositories.fact_unit_of_work import SqliteUnitOfWork

_VISIBLE = """EXISTS (SELECT 1 FROM scope q
  WHERE q.scope_no = run.realm_no AND q.retired_at IS NULL)"""
_RUN = "SELECT body FROM run WHERE realm_no = ? AND run_id = ?"
_RUNS_BY_ID = f"SELECT body FROM run WHERE run_id = ? AND {_VISIBLE} ORDER BY scope"
# The condition is that of the index.
_WITHHELD = """SELECT body FROM run INDEXED BY run_withheld WHERE realm_no = ?
  AND outcome IS NULL AND json_extract(body, '$.arm') <> 'on'
  AND json_extract(body, '$.kind') = 'mission' ORDER BY run_id"""
# The page is selected in an index; only its own runs are read.
_LIST_FILTER = f"""{_VISIBLE} AND (?1 IS NULL OR namespace = ?1) AND (?2 IS NULL OR blueprint = ?2)
  AND (?4 IS NULL OR (opened_at, run_id, scope) <
    (SELECT opened_at, run_id, scope FROM run WHERE realm_no = ?3 AND run_id = ?4))
  ORDER BY opened_at DESC, run_id DESC, scope DESC LIMIT ?5"""
_PAGE = """SELECT r.body FROM ({}) page JOIN run r USING(realm_no, run_id)
  ORDER BY r.opened_at DESC, r.run_id DESC, r.scope DESC"""
_RUNS = _PAGE.format(f"SELECT realm_no, run_id FROM run INDEXED BY run_newest WHERE {_LIST_FILTER}")
_RUNS_SEEN = _PAGE.format(
    f"""SELECT realm_no, run_id FROM json_each(?6) n
  CROSS JOIN run INDEXED BY run_scope ON scope = n.value WHERE {_LIST_FILTER}"""
)
_OLD = "SELECT body, credited, last_at, by_agent FROM run WHERE realm_no = ? AND run_id = ?"
# As `run_reports.is_of_agent`.
_COUNTED = f"""{_VISIBLE} AND NOT
  coalesce(by_agent, json_extract(body, '$.kind') <> 'mission' AND instr(scope, '/cell:') > 0)"""
_LEDGER = f"""SELECT scope, revision, outcome, last_at, duration_us, cost FROM run
  WHERE namespace = ?1 AND blueprint = ?2 AND {_COUNTED}"""
_VALUES = f"""SELECT scope, outcome, last_at, duration_us, cost,
  json_extract(body, '$.parameters') FROM run
  WHERE namespace = ?1 AND blueprint = ?2 AND json_type(body, '$.parameters') = 'object'
  AND {_COUNTED}"""
_SAMPLES = f"""SELECT scope, run_id, revision, outcome, cost, json_extract(body, '$.arm'),
  json_extract(body, '$.counters.turns'), json_extract(body, '$.tokens'),
  coalesce(json_extract(body, '$.parameters'), '{{}}'),
  CASE json_extract(body, '$.kind') WHEN 'mission'
    THEN json_extract(body, '$.counters.canary') END,
  opened_at FROM run
  WHERE namespace = ?1 AND blueprint = ?2 AND {_COUNTED}"""
_FROM_RUN = "FROM run\n  WHERE namespace"
_FROM_SEEN = """FROM json_each(?3) n CROSS JOIN run INDEXED BY run_blueprint
  ON scope = n.value WHERE namespace"""


class Runs(base.SqliteRepository):
    """The `RunStore` port."""

    def put_run(self, run_id: str, run: RunIn, *, actor: Actor) -> Run:
        """Merge a run; when this closes it, credit the facts."""
        return self._writer.submit(lambda tx: _put(tx, run_id, run, actor))

    def run(self, key: RunKey, view: View) -> Run | None:
        """Return a visible run."""
        with self._readers.snapshot() as connection:
            run = find_run(connection, key)
        return run if run and view.can_read(run.scope) else None

    def runs_named(self, run_id: str, view: View) -> tuple[Run, ...]:
        """Return the visible runs with an id, in every realm."""
        with self._readers.snapshot() as connection:
            return visible_runs(connection, run_id, view)

    def withheld_runs(self, realm: str) -> tuple[Run, ...]:
        """Return the open missions of a realm that get no knowledge."""
        with self._readers.snapshot() as connection:
            realm_no = base.find_scope(connection, realm)
            rows = connection.execute(_WITHHELD, (realm_no,)) if realm_no is not None else ()
            return tuple(Run.model_validate_json(body) for (body,) in rows)

    def list_runs(self, listing: RunListing) -> tuple[Run, ...]:
        """Return a page of runs."""
        view = listing.view
        with self._readers.bulk_connection() as connection:
            cursor = (
                run_columns(connection, listing.before_run) if listing.before_run else (None, None)
            )
            bindings = (
                listing.namespace,
                listing.blueprint,
                *(cursor or (None, "")),
                listing.limit,
            )
            if view.can_read_subtree(PLATFORM):
                rows = connection.execute(_RUNS, bindings)
            else:
                rows = connection.execute(_RUNS_SEEN, (*bindings, _paths(connection, view)))
            return tuple(Run.model_validate_json(body) for (body,) in rows)

    def blueprint_stats(
        self, names: Sequence[BlueprintName], view: View
    ) -> tuple[BlueprintStats, ...]:
        """Count from the ledger alone."""
        with self._readers.bulk_connection() as connection:
            return tuple(
                run_statistics.blueprint_stats(name, _ledger(connection, name, view))
                for name in names
            )

    def run_samples(
        self, name: BlueprintName, view: View, *, since: datetime | None = None
    ) -> tuple[run_statistics.RunSample, ...]:
        """Return what the ledger has of each run, newest first."""
        earliest = 0 if since is None else times.to_us(since)
        with self._readers.bulk_connection() as connection:
            rows = [
                row
                for row in _of_blueprint(connection, _SAMPLES, name, view)
                if row[-1] >= earliest
            ]
        rows.sort(key=lambda row: (row[-1], row[1]), reverse=True)
        return tuple(
            run_statistics.RunSample(
                run_id=run_id,
                revision=revision,
                arm=arm or "on",
                outcome=outcome,
                turns=turns,
                tokens=tokens,
                cost=cost,
                parameters=json.loads(parameters),
                canary=lot,
            )
            for _, run_id, revision, outcome, cost, arm, turns, tokens, parameters, lot, _ in rows
        )

    def parameter_stats(self, name: BlueprintName, view: View) -> tuple[ParameterStats, ...]:
        """Count from the ledger, by the values that the runs were opened with."""
        with self._readers.bulk_connection() as connection:
            rows = [
                _row(None, *values, parameters=parameters)
                for _, *values, parameters in _of_blueprint(connection, _VALUES, name, view)
            ]
        return run_statistics.parameter_stats(rows)


def run_columns(connection: apsw.Connection | Transaction, key: RunKey) -> tuple[int, str] | None:
    """Return the columns that identify a run; None when the realm does not exist."""
    realm_no = base.find_scope(connection, key.realm)
    return None if realm_no is None else (realm_no, key.run_id)


def find_run(connection: apsw.Connection | Transaction, key: RunKey) -> Run | None:
    """Return a run of a realm that is not retired."""
    columns = run_columns(connection, key)
    for (body,) in connection.execute(_RUN, columns) if columns else ():
        return Run.model_validate_json(body)
    return None


def visible_runs(connection: apsw.Connection, run_id: str, view: View) -> tuple[Run, ...]:
    """Return the visible runs with an id, at most one in each realm."""
    if view.can_read_subtree(PLATFORM):
        bodies = connection.execute(_RUNS_BY_ID, (run_id,))
        return tuple(Run.model_validate_json(body) for (body,) in bodies)
    # Only readable realms are read, so that the content of others cannot delay the reader.
    scopes = (PLATFORM, view.home, *(reach.scope for reach in view.scope_ranges))
    realms = sorted({realm_of(scope) for scope in scopes})
    candidates = (find_run(connection, RunKey(realm, run_id)) for realm in realms)
    return tuple(run for run in candidates if run and view.can_read(run.scope))


def _put(tx: Transaction, run_id: str, run: RunIn, actor: Actor) -> Run:
    realm_no = base.ensure_scope(tx, realm_of(run.scope), actor.name)
    row = tx.fetch_first(_OLD, (realm_no, run_id))
    old = Run.model_validate_json(row[0]) if row else None
    by_agent = row[3] if row else actor.type == "agent"
    try:
        merged = run_reports.merge_run(run_id, old, run, tx.now)
    except run_reports.RunMismatch as exc:
        if exc.field == "outcome":
            raise RunOutcomeConflict(
                f"run {run_id} is closed with outcome {exc.recorded}; an outcome never changes"
            ) from exc
        raise Conflict(f"run {run_id} is another one: its {exc.field} is {exc.recorded}") from exc
    if merged == old:
        return merged
    if old:
        run_reports.require_changeable(
            old, by_agent=by_agent, name=actor.name, changed_by=actor.type
        )
    scope_no = base.ensure_scope(tx, merged.scope, actor.name)
    credited, exposed = _credit(tx, merged, realm_no, actor, credited=bool(row and row[1]))
    kind = "run.closed" if merged.outcome and not (old and old.outcome) else "run.recorded"
    part_ = {
        "run": merged.model_dump(mode="json", exclude_none=True),
        "realm": realm_no,
        "last_at": row[2] if row and old and old.closed_at else tx.at_us,
        "credited": credited,
        "by_agent": None if by_agent is None else bool(by_agent),
    }
    tx.record(kind, scope_no=scope_no, actor=actor.name, parts=[part_])
    for fact_id in exposed:
        promote.promote_proven(SqliteUnitOfWork(tx), fact_id)
    return merged


def _credit(
    tx: Transaction, run: Run, realm_no: int, actor: Actor, *, credited: bool
) -> tuple[bool, tuple[str, ...]]:
    """Credit the facts that a just closed run recalled; also return these facts."""
    if credited or run.outcome is None:
        return credited, ()
    kind = run_reports.usage_kind_of_outcome(run, actor.type)
    return True, run_credit.credit(tx, realm_no, run.run_id, kind) if kind else ()


def _ledger(
    connection: apsw.Connection, name: BlueprintName, view: View
) -> list[run_statistics.LedgerRow]:
    return [_row(*values) for _, *values in _of_blueprint(connection, _LEDGER, name, view)]


def _of_blueprint(
    connection: apsw.Connection, sql: str, name: BlueprintName, view: View
) -> Iterator[tuple[Any, ...]]:
    """Read a Blueprint's visible runs."""
    if view.can_read_subtree(PLATFORM):
        return iter(connection.execute(sql, (name.namespace, name.name)))
    bindings = (name.namespace, name.name, _paths(connection, view))
    return iter(connection.execute(sql.replace(_FROM_RUN, _FROM_SEEN), bindings))


def _paths(connection: apsw.Connection, view: View) -> str:
    """Return the paths that a reader sees in the form that a query takes."""
    return json_list(sorted(base.visible_paths(connection, view, None)))


def _row(
    revision: int | None,
    outcome: str | None,
    last_at: int,
    duration_us: int | None,
    cost: float | None,
    *,
    parameters: str = "{}",
) -> run_statistics.LedgerRow:
    return run_statistics.LedgerRow(
        revision=revision,
        outcome=outcome,
        last_at=times.from_us(last_at),
        duration_s=None if duration_us is None else duration_us / 1e6,
        cost=cost,
        parameters=json.loads(parameters),
    )
