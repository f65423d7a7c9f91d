"""The event log as readers see it: events about visible things, without any text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import apsw

from knowledge_service.domain.access_control import View
from knowledge_service.event_log import times
from knowledge_service.ports import ChangePage, ChangeRecord
from knowledge_service.store.sqlite import event_table
from knowledge_service.store.sqlite.json_lists import json_list
from knowledge_service.store.sqlite.repositories import base, fact_rows
from knowledge_service.store.sqlite.repositories.rows_across_scopes import ScopedRows

# The maximum number of events of visible scopes that are read at a time.
_MAX_SCANNED = 5_000

# Two subqueries, because a single query would read the whole log.
_BOUNDS = """SELECT coalesce((SELECT min(seq) FROM event), 1) - 1,
  coalesce((SELECT max(seq) FROM event), 0)"""
_LOG = "SELECT seq, scope_no, type, actor, at FROM event WHERE seq > ? ORDER BY seq"
_BY_SCOPE = ScopedRows(
    heads="""SELECT s.value, e.seq FROM json_each(?1) s CROSS JOIN event e ON e.seq = (
      SELECT min(seq) FROM event INDEXED BY event_scope WHERE scope_no = s.value AND seq > ?2)""",
    page="""SELECT seq, scope_no, type, actor, at FROM event INDEXED BY event_scope
      WHERE scope_no = ? AND seq > ? ORDER BY seq LIMIT ?""",
)
_SCOPE_OF = f"""SELECT scope_no FROM fact
  WHERE id = ?1 AND (?2 OR review NOT IN {fact_rows.UNREVIEWED})"""
_IS_UNREVIEWED = f"SELECT 1 FROM fact WHERE id = ? AND review IN {fact_rows.UNREVIEWED}"
_CLASSES = f"""SELECT DISTINCT f.scope_no, f.kind, f.schema
  FROM json_each(?1) i CROSS JOIN fact f ON f.id = i.value
  WHERE ?2 OR f.review NOT IN {fact_rows.UNREVIEWED}"""
_KEY = "SELECT value FROM meta WHERE key = 'seal_key'"
# The first write below a scope creates it, so these events would reveal who was first.
OF_WHO_CAME_FIRST = frozenset({"scope.created", "realm.named"})
# Fields that refer to facts, which may be in other scopes than the event. A part is visible only to
# readers who see all of these facts.
_ENDS = ("from", "to", "origin", "copy", "used")


@dataclass
class Named:
    """The facts, links, run and session that an event refers to."""

    facts: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    run: str | None = None
    session: str | None = None
    is_hidden: bool = False


class ChangeLog(base.SqliteRepository):
    """The event stream of the `EventLogStore` port."""

    def encryption_key(self) -> bytes:
        """Read the secret that was generated with the file."""
        with self._readers.snapshot() as connection:
            rows: list[Any] = connection.execute(_KEY).fetchall()
            return bytes.fromhex(rows[0][0])

    def bounds(self) -> tuple[int, int]:
        """Return the positions before the first event and of the last one."""
        with self._readers.snapshot() as connection:
            bounds: list[Any] = connection.execute(_BOUNDS).fetchall()
            return int(bounds[0][0]), int(bounds[0][1])

    def changes(self, after_position: int, view: View, *, limit: int) -> ChangePage:
        """Read the events of visible scopes, up to the maximum for one call."""
        records: list[ChangeRecord] = []
        read, position = 0, after_position
        with self._readers.bulk_connection() as connection:
            bounds: list[Any] = connection.execute(_BOUNDS).fetchall()
            last = max(after_position, int(bounds[0][1]))
            scopes = base.visible_scopes(connection, view, None)
            events = _events(connection, view, scopes, after_position, last)
            for row in islice(events, _MAX_SCANNED):
                read, position = read + 1, row[0]
                if row[2] in OF_WHO_CAME_FIRST and not view.can_read_subtree(
                    scopes.get(row[1], "")
                ):
                    continue
                change = _change(connection, row, scopes, drafts=view.drafts)
                if change:
                    records.append(change)
                    if len(records) == limit:
                        return ChangePage(tuple(records), position)
        return ChangePage(tuple(records), position if read == _MAX_SCANNED else last)


def _events(
    connection: apsw.Connection,
    view: View,
    scopes: Mapping[int, str],
    after_position: int,
    last: int,
) -> Iterable[tuple[Any, ...]]:
    """Return the events of the scopes in order; all events if these are fewer than the scopes."""
    names = base.scope_filter(view, scopes)
    if names.scopes is None or (
        names.most_entries is not None and last - after_position <= len(scopes)
    ):
        return connection.execute(_LOG, (after_position,))
    return _BY_SCOPE.merge(connection, scopes, (after_position,))


def names(
    connection: apsw.Connection,
    row: tuple[Any, ...],
    scopes: Mapping[int, str],
    *,
    drafts: bool = True,
) -> Named:
    """Return the visible references of an event; it is hidden if none of its parts is visible."""
    names_found, shown_count, parts = Named(), 0, event_table.read_parts(connection, row[0])
    for part in parts:
        ends = [part[end] for end in _ENDS if isinstance(part.get(end), str)]
        if not all(_is_visible(connection, end, scopes, drafts=drafts) for end in ends):
            continue
        if not drafts and _is_unreviewed(connection, part.get("fact")):
            continue
        shown_count += 1
        names_found.facts += [part["fact"]] if isinstance(part.get("fact"), str) else []
        names_found.facts += ends
        names_found.facts += [str(fact_id) for fact_id in part.get("facts", ())]
        names_found.links += [part["id"]] if row[2].startswith("link.") else []
        run = part.get("run")
        names_found.run = run.get("run_id") if isinstance(run, dict) else run or names_found.run
        if row[2].startswith("usage."):
            names_found.session = part.get("session") or names_found.session
    names_found.is_hidden = bool(parts) and not shown_count
    return names_found


def _change(
    connection: apsw.Connection, row: tuple[Any, ...], scopes: Mapping[int, str], *, drafts: bool
) -> ChangeRecord | None:
    seq, scope_no, kind, actor, at = row
    if scope_no not in scopes:
        return None
    names_of_event = names(connection, row, scopes, drafts=drafts)
    if names_of_event.is_hidden:
        return None
    facts = tuple(dict.fromkeys(names_of_event.facts))
    kinds, schemas = _kinds_and_schemas(connection, facts, scopes, drafts=drafts)
    return ChangeRecord(
        position=seq,
        type=kind,
        scope=scopes[scope_no],
        actor=actor,
        at=times.from_us(at),
        facts=facts,
        links=tuple(names_of_event.links),
        run=names_of_event.run,
        session=names_of_event.session,
        kinds=kinds,
        schemas=schemas,
    )


def _kinds_and_schemas(
    connection: apsw.Connection,
    facts: Sequence[str],
    scopes: Mapping[int, str],
    *,
    drafts: bool,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the kinds and the schemas of the visible ones among the facts."""
    if not facts:
        return (), ()
    kinds, schemas = set[str](), set[str]()
    rows: Any = connection.execute(_CLASSES, (json_list(facts), drafts))
    for scope_no, kind, schema in rows:
        if scope_no in scopes:
            kinds.add(kind)
            schemas |= {schema} if schema else set()
    return tuple(sorted(kinds)), tuple(sorted(schemas))


def _is_visible(
    connection: apsw.Connection, fact_id: str, scopes: Mapping[int, str], *, drafts: bool
) -> bool:
    rows = connection.execute(_SCOPE_OF, (fact_id, drafts))
    return any(number in scopes for (number,) in rows)


def _is_unreviewed(connection: apsw.Connection, fact_id: Any) -> bool:
    return any(connection.execute(_IS_UNREVIEWED, (fact_id,))) if fact_id else False
