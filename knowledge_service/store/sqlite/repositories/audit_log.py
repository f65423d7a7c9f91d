"""The audit log: changes from the event log and recalls from receipts, merged, newest first."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import apsw

from knowledge_client.models import AuditEntry
from knowledge_service.domain.access_control import PLATFORM, ScopeRange, View
from knowledge_service.event_log import times
from knowledge_service.ports import AuditCursor, AuditRecords
from knowledge_service.store.sqlite.repositories import base, event_stream
from knowledge_service.store.sqlite.repositories.rows_across_scopes import ScopedRows

# The maximum number of rows of each kind that are read for a page. A page that reaches it has fewer
# entries than its limit, but a cursor.
_MAX_SCANNED = 20_000

_EVENTS = """SELECT seq, scope_no, type, actor, at FROM event WHERE seq < ? ORDER BY seq DESC"""
_EVENTS_BY_SCOPE = ScopedRows(
    heads="""SELECT s.value, e.seq FROM json_each(?1) s CROSS JOIN event e ON e.seq = (
      SELECT max(seq) FROM event INDEXED BY event_scope WHERE scope_no = s.value AND seq < ?2)""",
    page="""SELECT seq, scope_no, type, actor, at FROM event INDEXED BY event_scope
      WHERE scope_no = ? AND seq < ? ORDER BY seq DESC LIMIT ?""",
    descending=True,
)
_RECEIPTS = """SELECT at, id, principal, observer_no, run_id FROM receipt WHERE (at, id) < (?, ?)
  ORDER BY at DESC, id DESC"""
_RECEIPTS_BY_SCOPE = ScopedRows(
    heads="""SELECT s.value, r.at, r.id FROM json_each(?1) s CROSS JOIN receipt r ON r.id = (
      SELECT id FROM receipt INDEXED BY receipt_observer
      WHERE observer_no = s.value AND (at, id) < (?2, ?3) ORDER BY at DESC, id DESC LIMIT 1)""",
    page="""SELECT at, id, principal, observer_no, run_id FROM receipt INDEXED BY receipt_observer
      WHERE observer_no = ? AND (at, id) < (?, ?) ORDER BY at DESC, id DESC LIMIT ?""",
    descending=True,
)
_BODY = "SELECT body FROM receipt WHERE id = ?"
_END = 2**62

# Builds the entry of a row once the row is put on a page, which most rows never are.
_EntryFactory = Callable[[], AuditEntry]


class AuditLog(event_stream.ChangeLog):
    """Implements the `EventLogStore` port."""

    def audit(
        self, scope_ranges: Sequence[ScopeRange], cursor: AuditCursor | None, *, limit: int
    ) -> AuditRecords:
        """Read events and receipts backwards and merge them by time."""
        start = cursor or AuditCursor(_END, _END, "")
        with self._readers.bulk_connection() as connection:
            scopes = base.scopes_in_ranges(connection, scope_ranges)
            acts = _Rows(_changes(connection, start, scopes, scope_ranges))
            recalls = _Rows(_recalls(connection, start, scopes, scope_ranges))
            return _merge(acts, recalls, start, limit)


class _Row(NamedTuple):
    at: int
    id: Any
    make_entry: _EntryFactory | None
    """None if the caller may not see the row."""


class _Rows:
    """Rows of one kind, newest first, read on demand."""

    def __init__(self, rows: Iterator[_Row]) -> None:
        self._rows = rows
        self._read = 0
        self.next: _Row | None = None
        self.take()

    @property
    def is_cut(self) -> bool:
        """Whether the maximum of rows for one page was read."""
        return self._read > _MAX_SCANNED

    def take(self) -> None:
        """Advance to the next row."""
        self._read += 1
        self.next = None if self.is_cut else next(self._rows, None)

    def has_visible(self) -> bool:
        """Advance to the next visible row; return whether there may be one."""
        while self.next and not self.next.make_entry:
            self.take()
        return self.next is not None or self.is_cut


def _changes(
    connection: apsw.Connection,
    start: AuditCursor,
    scopes: dict[int, str],
    reaches: Sequence[ScopeRange],
) -> Iterator[_Row]:
    view = View(PLATFORM, tuple(reaches))
    everything = view.can_read_subtree(PLATFORM)

    def is_told(scope_no: int | None, kind: str) -> bool:
        path = scopes.get(scope_no) if scope_no is not None else None
        if path is None:
            return scope_no is None and everything
        return kind not in event_stream.OF_WHO_CAME_FIRST or view.can_read_subtree(path)

    start_key = (start.event,)
    rows: Any = (
        connection.execute(_EVENTS, start_key)
        if everything
        else _EVENTS_BY_SCOPE.merge(connection, scopes, start_key)
    )
    for row in rows:
        make_entry = partial(_change, connection, row, scopes) if is_told(*row[1:3]) else None
        yield _Row(row[4], row[0], make_entry)


def _change(
    connection: apsw.Connection, row: tuple[Any, ...], scopes: dict[int, str]
) -> AuditEntry:
    _, scope_no, kind, actor, at = row
    names = event_stream.names(connection, row, scopes)
    return AuditEntry(
        at=times.from_us(at), actor=actor, action=kind, scope=scopes.get(scope_no),
        facts=tuple(dict.fromkeys(names.facts)), run=names.run,
        session=names.session,
    )  # fmt: skip


def _recalls(
    connection: apsw.Connection,
    start: AuditCursor,
    scopes: dict[int, str],
    reaches: Sequence[ScopeRange],
) -> Iterator[_Row]:
    start_key = (start.at_us, start.receipt)
    rows: Any = (
        connection.execute(_RECEIPTS, start_key)
        if View(PLATFORM, tuple(reaches)).can_read_subtree(PLATFORM)
        else _RECEIPTS_BY_SCOPE.merge(connection, scopes, start_key)
    )
    for row in rows:
        make_entry = partial(_recall, connection, row, scopes) if row[3] in scopes else None
        yield _Row(row[0], row[1], make_entry)


def _recall(
    connection: apsw.Connection, row: tuple[Any, ...], scopes: dict[int, str]
) -> AuditEntry:
    at, receipt_id, principal, observer_no, run_id = row
    bodies: list[Any] = connection.execute(_BODY, (receipt_id,)).fetchall()
    receipt: dict[str, Any] = json.loads(bodies[0][0])
    impersonator = receipt.get("acted_by")
    return AuditEntry(
        at=times.from_us(at), actor=impersonator or principal, action="recall",
        scope=scopes[observer_no], facts=tuple(receipt["facts"]), run=run_id,
        receipt=receipt_id, on_behalf_of=principal if impersonator else None,
    )  # fmt: skip


def _merge(acts: _Rows, recalls: _Rows, start: AuditCursor, limit: int) -> AuditRecords:
    """Take the newer of the next two rows until the page is full or one kind is cut off."""
    entries: list[AuditEntry] = []
    while len(entries) < limit:
        # Rows of one kind must not pass the position at which the other kind was cut off.
        if acts.is_cut or recalls.is_cut:
            break
        act, recall = acts.next, recalls.next
        if act and (recall is None or act.at >= recall.at):
            newest = act
            start = AuditCursor(act.id, start.at_us, start.receipt)
            acts.take()
        elif recall:
            newest = recall
            start = AuditCursor(start.event, recall.at, recall.id)
            recalls.take()
        else:
            break
        if newest.make_entry:
            entries.append(newest.make_entry())
    # Without further visible rows there is no next page.
    has_next_page = acts.has_visible() or recalls.has_visible()
    return AuditRecords(tuple(entries), start if has_next_page else None)
