"""The log as readers see it: what touches only visible things, named and without any text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import apsw

from knowledge_service.domain.visibility import View
from knowledge_service.event_log import event_payloads, times
from knowledge_service.ports import Change, Changes
from knowledge_service.store.sqlite import part, rows

# So many events are looked through at a time; a reader of few scopes is never kept waiting long.
_LOOKED_THROUGH = 5_000

_BOUNDS = "SELECT coalesce(min(seq), 1) - 1, coalesce(max(seq), 0) FROM event"
_LOG = """SELECT e.seq, e.scope_no, e.type, e.actor, e.at, p.salt, p.bytes
  FROM event e LEFT JOIN payload p USING(seq) WHERE e.seq > ? AND e.seq <= ? ORDER BY e.seq"""
_SCOPE_OF = f"""SELECT scope_no FROM fact
  WHERE id = ?1 AND (?2 OR review NOT IN {rows.UNREVIEWED})"""
_IS_UNREVIEWED = f"SELECT 1 FROM fact WHERE id = ? AND review IN {rows.UNREVIEWED}"
_KEY = "SELECT value FROM meta WHERE key = 'seal_key'"
# The first write of anybody makes the scopes above it; that tells who came first.
OF_WHO_CAME_FIRST = frozenset({"scope.created", "realm.named"})
# Ends that may lie in other scopes than the event: a change is told to who may see them all.
_ENDS = ("from", "to", "origin", "copy", "used")


@dataclass
class Named:
    """What an event's parts name."""

    facts: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    run: str | None = None
    is_hidden: bool = False


class ChangeLog(part.Part):
    """The stream's half of the `ChangeStore` port."""

    def seal_key(self) -> bytes:
        """Read the secret that the file was given when it was made."""
        with self._readers.snapshot() as connection:
            rows: list[Any] = connection.execute(_KEY).fetchall()
            return bytes.fromhex(rows[0][0])

    def bounds(self) -> tuple[int, int]:
        """Find the first and the last event."""
        with self._readers.snapshot() as connection:
            bounds: list[Any] = connection.execute(_BOUNDS).fetchall()
            return int(bounds[0][0]), int(bounds[0][1])

    def changes(self, after: int, view: View, *, limit: int) -> Changes:
        """Look through a stretch of the log."""
        found: list[Change] = []
        with self._readers.browsing() as connection:
            bounds: list[Any] = connection.execute(_BOUNDS).fetchall()
            last = min(int(bounds[0][1]), after + _LOOKED_THROUGH)
            scopes = part.scopes_seen(connection, view, None)
            for row in connection.execute(_LOG, (after, last)):
                if row[2] in OF_WHO_CAME_FIRST and not view.sees_all_below(scopes.get(row[1], "")):
                    continue
                change = _change(connection, row, scopes, drafts=view.drafts)
                if change:
                    found.append(change)
                    if len(found) == limit:
                        return Changes(tuple(found), change.position)
        return Changes(tuple(found), max(after, last))


def names(
    connection: apsw.Connection,
    row: tuple[Any, ...],
    scopes: Mapping[int, str],
    *,
    drafts: bool = True,
) -> Named:
    """Say what an event names of what is visible; hidden when nothing visible is left of it."""
    found, shown, parts = Named(), 0, list(_parts(row))
    for each in parts:
        ends = [each[end] for end in _ENDS if isinstance(each.get(end), str)]
        if not all(_is_visible(connection, end, scopes, drafts=drafts) for end in ends):
            continue
        if not drafts and _is_unreviewed(connection, each.get("fact")):
            continue
        shown += 1
        found.facts += [each["fact"]] if isinstance(each.get("fact"), str) else []
        found.facts += ends
        found.facts += [str(one) for one in each.get("facts", ())]
        found.links += [each["id"]] if row[2].startswith("link.") else []
        run = each.get("run")
        found.run = run.get("run_id") if isinstance(run, dict) else run or found.run
    found.is_hidden = bool(parts) and not shown
    return found


def _change(
    connection: apsw.Connection, row: tuple[Any, ...], scopes: Mapping[int, str], *, drafts: bool
) -> Change | None:
    seq, scope_no, kind, actor, at = row[:5]
    if scope_no not in scopes:
        return None
    named = names(connection, row, scopes, drafts=drafts)
    if named.is_hidden:
        return None
    return Change(
        position=seq,
        type=kind,
        scope=scopes[scope_no],
        actor=actor,
        at=times.from_us(at),
        facts=tuple(dict.fromkeys(named.facts)),
        links=tuple(named.links),
        run=named.run,
    )


def _parts(row: tuple[Any, ...]) -> Iterator[Mapping[str, Any]]:
    salt, data = row[5], row[6]
    if salt is not None:
        yield from (
            each for each in event_payloads.decode(event_payloads.StoredPayload(salt, data)) if each
        )


def _is_visible(
    connection: apsw.Connection, fact_id: str, scopes: Mapping[int, str], *, drafts: bool
) -> bool:
    found = connection.execute(_SCOPE_OF, (fact_id, drafts))
    return any(number in scopes for (number,) in found)


def _is_unreviewed(connection: apsw.Connection, fact_id: Any) -> bool:
    return any(connection.execute(_IS_UNREVIEWED, (fact_id,))) if fact_id else False
