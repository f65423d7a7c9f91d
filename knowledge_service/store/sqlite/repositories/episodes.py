"""Episodes in tables: appended in order, without duplicates, limited in number, secrets masked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter

from knowledge_client.models import (
    Episode,
    EpisodeIn,
    EpisodesAccepted,
)
from knowledge_service.domain import redaction
from knowledge_service.domain.episodes import identity_hash
from knowledge_service.domain.run_reports import RunKey
from knowledge_service.errors import NotFound, QuotaExceeded
from knowledge_service.event_log import times
from knowledge_service.ports import Actor, IdempotencyKey
from knowledge_service.store.sqlite.db.transaction import Transaction
from knowledge_service.store.sqlite.repositories import base, runs

_ACCEPTED: TypeAdapter[EpisodesAccepted] = TypeAdapter(EpisodesAccepted)
MAX_EPISODES = 5000
"""The limit of a run's record; the operator adds the ends of attempts to a full record, too."""
_ALL = -1  # no limit, in SQLite
_EPISODES = """SELECT attempt, type, content, error_signature, refs, at, seq, actor FROM episode
  WHERE realm_no = ? AND run_id = ? AND seq > ? ORDER BY seq LIMIT ?"""
_EQUAL = """SELECT 1 FROM episode
  WHERE realm_no = ? AND run_id = ? AND attempt = ? AND content_hash = ?"""
_LAST_SEQ = "SELECT coalesce(max(seq), 0) FROM episode WHERE realm_no = ? AND run_id = ?"


class Episodes(base.SqliteRepository):
    """The episodes of the `RunStore` port."""

    def add_episodes(
        self,
        key: RunKey,
        episodes: Sequence[EpisodeIn],
        *,
        actor: Actor,
        idempotency_key: IdempotencyKey | None = None,
    ) -> EpisodesAccepted:
        """Append new episodes."""
        # Masking takes time for each word, so it is done outside of the writer thread.
        masked = [_masked(episode) for episode in episodes]
        return self._idempotent(
            idempotency_key, _ACCEPTED, lambda tx: _append(tx, key, masked, actor)
        )

    def episodes(
        self, key: RunKey, *, after_sequence: int = 0, limit: int | None = None
    ) -> tuple[Episode, ...]:
        """Read the record."""
        with self._readers.snapshot() as connection:
            columns = runs.run_columns(connection, key)
            if columns is None:
                return ()
            page = (*columns, after_sequence, _ALL if limit is None else limit)
            return tuple(_episode(key.run_id, row) for row in connection.execute(_EPISODES, page))


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


def _masked(episode: EpisodeIn) -> EpisodeIn:
    signature = episode.error_signature
    masked = {
        "content": redaction.mask(episode.content),
        "error_signature": redaction.mask(signature) if signature else None,
    }
    return episode.model_copy(update=masked)


def _append(
    tx: Transaction, key: RunKey, episodes: Sequence[EpisodeIn], actor: Actor
) -> EpisodesAccepted:
    run, columns = runs.find_run(tx, key), runs.run_columns(tx, key)
    if run is None or columns is None:
        raise NotFound(f"run {key.run_id} does not exist or is not visible to you")
    realm_no, run_id = columns
    first = last = (tx.fetch_first(_LAST_SEQ, columns) or (0,))[0]
    added: dict[tuple[int, bytes], dict[str, Any]] = {}
    for episode in episodes:
        new = {
            "run": run_id, "realm": realm_no, "attempt": episode.attempt, "type": episode.type,
            "at": times.to_us(episode.at), "content": episode.content,
            "error_signature": episode.error_signature,
            "refs": [ref.model_dump() for ref in episode.refs],
        }  # fmt: skip
        identity = (episode.attempt, identity_hash(new))
        if identity not in added and not tx.fetch_first(_EQUAL, (*columns, *identity)):
            last += 1
            added[identity] = new | {"seq": last}
    if added and last > MAX_EPISODES and actor.type != "system":
        raise QuotaExceeded(f"run {run_id} may have {MAX_EPISODES} episodes; it has {first}")
    if added:
        scope_no = base.ensure_scope(tx, run.scope, actor.name)
        parts = list(added.values())
        tx.record("episodes.appended", scope_no=scope_no, actor=actor.name, parts=parts)
    return EpisodesAccepted(accepted=len(added), duplicates=len(episodes) - len(added))
