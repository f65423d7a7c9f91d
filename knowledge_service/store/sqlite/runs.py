"""The ledger in tables: runs merged, episodes appended, and what both count up to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import apsw
from pydantic import TypeAdapter

from knowledge_client.models import (
    BlueprintName,
    BlueprintStats,
    Episode,
    EpisodeIn,
    EpisodesAccepted,
    Run,
    RunIn,
)
from knowledge_service.domain import redaction, runs, statistics
from knowledge_service.domain.facts import canonical
from knowledge_service.domain.visibility import View, realm_of
from knowledge_service.errors import Conflict, NotFound, QuotaExceeded, RunClosedOtherwise
from knowledge_service.ports import Actor, Once, RunListing
from knowledge_service.store.sqlite import part, recall, times
from knowledge_service.store.sqlite.transaction import Transaction

_ACCEPTED: TypeAdapter[EpisodesAccepted] = TypeAdapter(EpisodesAccepted)
# A run's record is evidence, not a log: ten times what a long agent session was seen to need.
MAX_EPISODES = 5000

_VISIBLE = "realm_no IN (SELECT scope_no FROM scope WHERE retired_at IS NULL)"
_RUN = f"SELECT body FROM run WHERE run_id = ? AND {_VISIBLE}"
_RUNS = f"""SELECT body FROM run WHERE {_VISIBLE}
  AND (?1 IS NULL OR namespace = ?1) AND (?2 IS NULL OR blueprint = ?2)
  AND (?3 IS NULL OR (opened_at, run_id) < (SELECT opened_at, run_id FROM run WHERE run_id = ?3))
  ORDER BY opened_at DESC, run_id DESC"""
_PUT = """INSERT OR REPLACE INTO run(run_id, scope, realm_no, namespace, blueprint, revision,
  outcome, cost, duration_us, opened_at, closed_at, last_at, credited, body)
  VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_OLD = "SELECT body, realm_no, credited, last_at FROM run WHERE run_id = ?"
_LEDGER = f"""SELECT scope, revision, outcome, last_at, duration_us, cost FROM run
  WHERE namespace = ? AND blueprint = ? AND {_VISIBLE}"""
_EPISODES = """SELECT attempt, type, content, error_signature, refs, at, seq, actor FROM episode
  WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?"""
_EPISODE = """INSERT OR IGNORE INTO episode(run_id, seq, attempt, type, content, error_signature,
  refs, at, recorded_at, actor, content_hash) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_LAST_SEQ = "SELECT coalesce(max(seq), 0) FROM episode WHERE run_id = ?"


class Runs(part.Part):
    """The `RunStore` port."""

    def put_run(self, run_id: str, run: RunIn, *, actor: Actor) -> Run:
        """Merge, and credit the facts when this closes the run."""
        return self._writer.submit(lambda tx: _put(tx, run_id, run, actor))

    def run(self, run_id: str, view: View) -> Run | None:
        """Look one up."""
        with self._readers.snapshot() as connection:
            run = find_run(connection, run_id)
        return run if run and view.sees(run.scope) else None

    def list_runs(self, listing: RunListing) -> tuple[Run, ...]:
        """List a page."""
        found: list[Run] = []
        asked = (listing.namespace, listing.blueprint, listing.before)
        with self._readers.snapshot() as connection:
            for (body,) in connection.execute(_RUNS, asked):
                run = Run.model_validate_json(body)
                if listing.view.sees(run.scope):
                    found.append(run)
                if len(found) == listing.limit:
                    break
        return tuple(found)

    def add_episodes(
        self, run_id: str, episodes: Sequence[EpisodeIn], *, actor: Actor, once: Once | None = None
    ) -> EpisodesAccepted:
        """Append what is new."""
        return self._once(once, _ACCEPTED, lambda tx: _append(tx, run_id, episodes, actor))

    def episodes(
        self, run_id: str, *, after: int = 0, limit: int | None = None
    ) -> tuple[Episode, ...]:
        """Read the record."""
        page = (run_id, after, MAX_EPISODES if limit is None else limit)
        with self._readers.snapshot() as connection:
            return tuple(_episode(run_id, row) for row in connection.execute(_EPISODES, page))

    def blueprint_stats(
        self, names: Sequence[BlueprintName], view: View
    ) -> tuple[BlueprintStats, ...]:
        """Count from the ledger, nothing else."""
        with self._readers.snapshot() as connection:
            return tuple(
                statistics.blueprint_stats(name, _ledger(connection, name, view)) for name in names
            )


def find_run(connection: apsw.Connection | Transaction, run_id: str) -> Run | None:
    """Return a run of a realm that is not retired."""
    for (body,) in connection.execute(_RUN, (run_id,)):
        return Run.model_validate_json(body)
    return None


def _episode(run_id: str, row: Sequence[Any]) -> Episode:
    return Episode(
        run_id=run_id,
        attempt=row[0],
        type=row[1],
        content=row[2],
        error_signature=row[3],
        refs=json.loads(row[4]),
        at=times.from_us(row[5]),
        seq=row[6],
        actor=row[7],
    )


def _put(tx: Transaction, run_id: str, run: RunIn, actor: Actor) -> Run:
    row = tx.one(_OLD, (run_id,))
    old = Run.model_validate_json(row[0]) if row else None
    try:
        merged = runs.merge(run_id, old, run, tx.now)
    except runs.Differs as exc:
        if exc.field == "outcome":
            raise RunClosedOtherwise(
                f"run {run_id} is closed with outcome {exc.recorded}; an outcome never changes"
            ) from exc
        raise Conflict(f"run {run_id} is another one: its {exc.field} is {exc.recorded}") from exc
    if merged == old:
        return merged
    scope_no = part.ensure_scope(tx, merged.scope, actor.name)
    realm_no = row[1] if row else part.ensure_scope(tx, realm_of(merged.scope), actor.name)
    credited = _credit(tx, merged, bool(row and row[2]))
    duration_s = runs.duration_s(merged)
    tx.execute(
        _PUT,
        (
            run_id, merged.scope, realm_no, merged.namespace, merged.blueprint, merged.revision,
            merged.outcome, merged.cost, None if duration_s is None else round(duration_s * 1e6),
            times.to_us(merged.opened_at), times.to_us(merged.closed_at),
            row[3] if row and old and old.closed_at else tx.at_us, int(credited),
            merged.model_dump_json(),
        ),
    )  # fmt: skip
    kind = "run.closed" if merged.outcome and not (old and old.outcome) else "run.recorded"
    payload = merged.model_dump(mode="json", exclude_none=True)
    tx.emit(kind, scope_no=scope_no, actor=actor.name, payload=payload)
    return merged


def _credit(tx: Transaction, run: Run, credited: bool) -> bool:
    if credited or run.outcome is None:
        return credited
    kind = runs.credit(run)
    if kind:
        recall.credit(tx, run.run_id, kind)
    return True


def _append(
    tx: Transaction, run_id: str, episodes: Sequence[EpisodeIn], actor: Actor
) -> EpisodesAccepted:
    run = find_run(tx, run_id)
    if run is None:
        raise NotFound(f"run {run_id} does not exist or is not visible to you")
    first = last = (tx.one(_LAST_SEQ, (run_id,)) or (0,))[0]
    added: list[dict[str, Any]] = []
    for episode in episodes:
        content = redaction.mask(episode.content)
        signature = redaction.mask(episode.error_signature) if episode.error_signature else None
        refs = [ref.model_dump() for ref in episode.refs]
        identity = canonical([episode.type, content, signature, refs]).encode()
        at = times.to_us(episode.at)
        tx.execute(
            _EPISODE,
            (
                run_id, last + 1, episode.attempt, episode.type, content, signature,
                canonical(refs), at, tx.at_us, actor.name, hashlib.sha256(identity).digest(),
            ),
        )  # fmt: skip
        if tx.changes():
            last += 1
            added.append(
                {"seq": last, "attempt": episode.attempt, "type": episode.type, "at": at,
                 "content": content, "error_signature": signature, "refs": refs}
            )  # fmt: skip
    if last > MAX_EPISODES:
        raise QuotaExceeded(f"run {run_id} may have {MAX_EPISODES} episodes; it has {first}")
    if added:
        scope_no = part.ensure_scope(tx, run.scope, actor.name)
        payload = {"run": run_id, "episodes": added}
        tx.emit("episodes.appended", scope_no=scope_no, actor=actor.name, payload=payload)
    return EpisodesAccepted(accepted=len(added), duplicates=len(episodes) - len(added))


def _ledger(
    connection: apsw.Connection, name: BlueprintName, view: View
) -> list[statistics.LedgerRow]:
    return [
        statistics.LedgerRow(
            revision=revision,
            outcome=outcome,
            last_at=times.from_us(last_at),
            duration_s=None if duration_us is None else duration_us / 1e6,
            cost=cost,
        )
        for scope, revision, outcome, last_at, duration_us, cost in connection.execute(
            _LEDGER, (name.namespace, name.name)
        )
        if view.sees(scope)
    ]
