"""Shared by all repositories: read snapshots, the write queue, and idempotency keys."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import apsw
from pydantic import TypeAdapter

from knowledge_service.domain.access_control import PLATFORM, ScopeRange, View, lineage, realm_of
from knowledge_service.errors import IdempotencyConflict
from knowledge_service.event_log import times
from knowledge_service.event_log.events import PendingEvent
from knowledge_service.ports import IdempotencyKey
from knowledge_service.store.sqlite.db.read_pool import ReadPool
from knowledge_service.store.sqlite.db.transaction import Transaction
from knowledge_service.store.sqlite.db.write_queue import WriteQueue
from knowledge_service.store.sqlite.json_lists import json_list

T = TypeVar("T")
# An arbitrary number; a person who may read a whole realm can see more scopes.
MANY_SCOPES = 512
# Reading an entry to find that it is hidden costs about as much as this many lookups.
_LOOKUPS_PER_ENTRY = 4
_IDEMPOTENCY_LIFETIME_US = 24 * 3600 * 1_000_000

_SCOPE = "SELECT scope_no FROM scope WHERE path = ? AND retired_at IS NULL"
_BY_PATH = """SELECT s.scope_no, s.path FROM json_each(?) n CROSS JOIN scope s ON s.path = n.value
  WHERE s.retired_at IS NULL"""
_NEXT_SCOPE = "SELECT coalesce(max(scope_no), 0) + 1 FROM scope"
_BELOW = "SELECT scope_no, path FROM scope WHERE path >= ? AND path < ? AND retired_at IS NULL"
_EVERY_SCOPE = "SELECT scope_no, path FROM scope WHERE retired_at IS NULL"
_DELETE_EXPIRED_RESPONSES = "DELETE FROM idempotency WHERE at < ?"
_STORED_RESPONSE = "SELECT body_hash, response FROM idempotency WHERE principal = ? AND key = ?"
_UNEXPIRED_RESPONSE = f"{_STORED_RESPONSE} AND at >= ?"
_STORE_RESPONSE = (
    "INSERT INTO idempotency(principal, key, body_hash, response, at) VALUES(?, ?, ?, ?, ?)"
)


class SqliteRepository:
    """The base class of the repositories, each of which implements one port of the store."""

    def __init__(self, readers: ReadPool, writer: WriteQueue) -> None:
        self._readers = readers
        self._writer = writer

    def _idempotent(
        self,
        idempotency_key: IdempotencyKey | None,
        answer: TypeAdapter[T],
        operation: Callable[[Transaction], T],
        *,
        may_store: Callable[[Transaction, T], bool] | None = None,
    ) -> T:
        """Run a write, or return the first answer under the same key."""
        return self._writer.submit(
            make_idempotent(idempotency_key, answer, operation, may_store=may_store)
        )


def make_idempotent(
    idempotency_key: IdempotencyKey | None,
    answer: TypeAdapter[T],
    operation: Callable[[Transaction], T],
    *,
    may_store: Callable[[Transaction, T], bool] | None = None,
) -> Callable[[Transaction], T]:
    """Wrap a write so that it returns the stored answer of its key, if there is one.

    `may_store` decides whether an answer from an earlier snapshot may still be stored.
    """
    if idempotency_key is None:
        return operation

    def run(tx: Transaction) -> T:
        tx.execute(_DELETE_EXPIRED_RESPONSES, (tx.at_us - _IDEMPOTENCY_LIFETIME_US,))
        stored_response = stored_response_of(
            tx.fetch_first(_STORED_RESPONSE, (idempotency_key.principal, idempotency_key.key)),
            idempotency_key,
        )
        if stored_response is not None:
            return answer.validate_json(stored_response)
        result = operation(tx)
        if may_store is not None and not may_store(tx, result):
            return result
        text = answer.dump_json(result).decode()
        tx.execute(
            _STORE_RESPONSE,
            (
                idempotency_key.principal,
                idempotency_key.key,
                idempotency_key.body_hash,
                text,
                tx.at_us,
            ),
        )
        return result

    return run


def read_stored_response(
    connection: apsw.Connection, idempotency_key: IdempotencyKey, now: datetime
) -> str | None:
    """Read the stored answer of a key, or None; the next write deletes one that has expired.

    Raises:
        IdempotencyConflict: the key was used with another body.
    """
    oldest_us = times.to_us(now) - _IDEMPOTENCY_LIFETIME_US
    bindings = (idempotency_key.principal, idempotency_key.key, oldest_us)
    rows = connection.execute(_UNEXPIRED_RESPONSE, bindings)
    return stored_response_of(next(iter(rows), None), idempotency_key)


def stored_response_of(row: tuple[Any, ...] | None, idempotency_key: IdempotencyKey) -> str | None:
    """Return the stored answer of a key, or None.

    Raises:
        IdempotencyConflict: the key was used with another body.
    """
    if row is None:
        return None
    if row[0] != idempotency_key.body_hash:
        raise IdempotencyConflict(
            f"Idempotency-Key {idempotency_key.key!r} was used with another body"
            " within 24 h; send a new key"
        )
    return str(row[1])


def ensure_scope(tx: Transaction, path: str, actor: str) -> int:
    """Return the number of a scope; create the scope and its ancestors if it is new."""
    row = tx.fetch_first(_SCOPE, (path,))
    return int(row[0]) if row else ensure_scopes(tx, [path], actor)[path]


def ensure_scopes(tx: Transaction, paths: Collection[str], actor: str) -> dict[str, int]:
    """Return the numbers of scopes by path; create new ones with their ancestors."""
    numbers = _numbers(tx, paths)
    missing = [path for path in paths if path not in numbers]
    if missing:
        lineages = list(
            dict.fromkeys(ancestor for path in missing for ancestor in lineage(path)[::-1])
        )
        existing = numbers | _numbers(tx, lineages)
        number = int((tx.fetch_first(_NEXT_SCOPE) or (1,))[0])
        events = []
        for path in lineages:
            if path not in existing:
                existing[path] = number
                parts = [{"path": path, "realm": existing[realm_of(path)]}]
                events.append(PendingEvent(number, actor, parts))
                number += 1
        tx.record_all("scope.created", events)
        numbers = {path: existing[path] for path in paths}
    return numbers


def _numbers(tx: Transaction, paths: Collection[str]) -> dict[str, int]:
    return {path: number for number, path in tx.fetch_all(_BY_PATH, (json_list(list(paths)),))}


def find_scope(connection: apsw.Connection | Transaction, path: str) -> int | None:
    """Return the number of a scope, or None if it does not exist."""
    for row in connection.execute(_SCOPE, (path,)):
        return int(row[0])
    return None


def visible_scopes(
    connection: apsw.Connection, view: View, paths: tuple[str, ...] | None
) -> dict[int, str]:
    """Return the paths of existing, visible scopes by number; with `paths`, only those."""
    if paths is not None:
        readable = [path for path in paths if view.can_read(path)]
        return _by_path(connection, readable)
    scopes = _by_path(connection, list(lineage(view.home)))
    return scopes | scopes_in_ranges(connection, view.scope_ranges)


def scopes_in_ranges(connection: apsw.Connection, reaches: Sequence[ScopeRange]) -> dict[int, str]:
    """Return the paths of existing scopes in the ranges, by number."""
    scopes: dict[int, str] = {}
    for reach in reaches:
        if not reach.subtree:
            scopes |= _by_path(connection, [reach.scope])
        elif reach.scope == PLATFORM:
            scopes |= dict(connection.execute(_EVERY_SCOPE))
        else:
            scopes |= _by_path(connection, [reach.scope])
            scopes |= dict(connection.execute(_BELOW, (reach.scope + "/", reach.scope + "0")))
    return scopes


@dataclass(frozen=True)
class ScopeFilter:
    """The visible scopes in the form that queries take.

    A query that names scopes reads no rows of other scopes, so these cannot delay a reader. But it
    costs one lookup for each scope. For a reader of many scopes, it is therefore used only for
    facts with more than `most_entries` entries: otherwise it is cheaper to read all entries and
    drop the hidden ones. `scopes` is None for a reader of everything.
    """

    scopes: str | None
    most_entries: int | None = None

    def split(
        self, connection: apsw.Connection, crowded: str, numbers: Collection[int]
    ) -> tuple[list[int], list[int]]:
        """Return the numbers to query without scopes, and those to query with scopes.

        `crowded` is a query that selects, of the numbers in the JSON list ?1, those with more than
        ?2 entries.
        """
        if self.scopes is None:
            return list(numbers), []
        if self.most_entries is None:
            return [], list(numbers)
        crowded_rows = connection.execute(crowded, (json_list(list(numbers)), self.most_entries))
        crowded_numbers = {number for (number,) in crowded_rows}
        return [n for n in numbers if n not in crowded_numbers], [
            n for n in numbers if n in crowded_numbers
        ]

    def is_named(
        self, connection: apsw.Connection, crowded: str, key: Sequence[Any] | int
    ) -> bool:  # fmt: skip
        """Return whether a query about one key must name the scopes.

        `crowded` is a query that returns whether the key has more entries than its last parameter.
        """
        if self.scopes is None or self.most_entries is None:
            return self.scopes is not None
        bindings = (key,) if isinstance(key, int) else tuple(key)
        return bool(connection.execute(crowded, (*bindings, self.most_entries)).fetchall()[0][0])


def scope_filter(view: View, scopes: Collection[int]) -> ScopeFilter:
    """Return the visible scopes in the form that queries take."""
    if view.can_read_subtree(PLATFORM):
        return ScopeFilter(None)
    return named_scopes(scopes)


def named_scopes(scopes: Collection[int]) -> ScopeFilter:
    """Return the named scopes in the form that queries take, whatever else the reader may see."""
    most_entries = len(scopes) // _LOOKUPS_PER_ENTRY if len(scopes) > MANY_SCOPES else None
    return ScopeFilter(json_list(sorted(scopes)), most_entries)


def visible_paths(
    connection: apsw.Connection, view: View, requested: tuple[str, ...] | None
) -> set[str]:
    """Return the visible paths: the reader's own path, and granted scopes that exist.

    Ancestors are always included: otherwise their existence would reveal what others did.
    """
    return with_own_path(visible_scopes(connection, view, requested).values(), view, requested)


def with_own_path(paths: Iterable[str], view: View, named: tuple[str, ...] | None) -> set[str]:
    """Add the scopes of the reader's own path to visible paths; with `named`, only named ones."""
    return {*paths, *(path for path in lineage(view.home) if named is None or path in named)}


def _by_path(connection: apsw.Connection, paths: list[str]) -> dict[int, str]:
    return dict(connection.execute(_BY_PATH, (json_list(paths),)))
