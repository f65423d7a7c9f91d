"""The whole store as lines of JSON: the log, the tables besides it, and a last line with counts.

    {"format": "kais-export/1", "schema": 4, ...}
    {"table": "receipt", "row": {...}}       no projection: receipts, usage, the store's id
    {"event": [seq, scope, type, actor, at, payload hash, previous hash], "salt", "lines"}
    {"end": {"events": n, "rows": n, "sha256": of all lines before}}

Projections and the index are left out, because an import replays the log. Idempotency keys are left
out because they expire within a day. The export of an imported store has the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, BinaryIO

from knowledge_service.domain.facts import canonical
from knowledge_service.errors import StartupError
from knowledge_service.event_log.event_payloads import StoredPayload
from knowledge_service.event_log.events import EventRow, LogEntry
from knowledge_service.event_log.hash_chain import EMPTY, event_hash
from knowledge_service.event_log.store_ports import (
    ExportedTables,
    ImportedTables,
    LogReader,
    LogTable,
)

FORMAT = "kais-export/1"
# Errors from a line of another shape.
_INVALID: tuple[type[Exception], ...] = (
    KeyError, TypeError, ValueError, AttributeError, OverflowError,
)  # fmt: skip


@dataclass(frozen=True)
class ExportCounts:
    """The numbers of events and rows that were exported or imported."""

    events: int
    rows: int


def write_export(log: LogReader, tables: ExportedTables, stream: BinaryIO) -> ExportCounts:
    """Write an export of a store from one snapshot."""
    digest, events, rows = hashlib.sha256(), 0, 0

    def write_line(value: Any) -> None:
        data = canonical(value).encode() + b"\n"
        digest.update(data)
        stream.write(data)

    write_line({"format": FORMAT, "schema": tables.schema})
    for table, row in tables.rows():
        encoded = {name: _encoded(value) for name, value in row.items()}
        write_line({"table": table, "row": encoded})
        rows += 1
    for entry in log.entries():
        write_line(_event_line(entry))
        events += 1
    write_line({"end": {"events": events, "rows": rows, "sha256": digest.hexdigest()}})
    return ExportCounts(events, rows)


def read_export(log: LogTable, tables: ImportedTables, lines: Iterable[bytes]) -> ExportCounts:
    """Store an export in an empty log, inside the caller's transaction.

    Raises:
        StartupError: the log is not empty, or the export is truncated, changed or of a newer
            schema; the message names the line.
    """
    if log.last_row() is not None:
        raise StartupError("the database is not empty; import into a new file")
    return _Import(log, tables).read(lines)


def _event_line(entry: LogEntry) -> dict[str, Any]:
    payload = entry.payload
    return {
        "event": [item.hex() if isinstance(item, bytes) else item for item in entry.row],
        "salt": None if payload is None else payload.salt.hex(),
        "lines": None if payload is None else payload.data.decode().split("\n"),
    }


def _encoded(value: Any) -> Any:
    return {"hex": value.hex()} if isinstance(value, bytes) else value


def _decoded(value: Any) -> Any:
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value


class _Import:
    """Checks and stores an export, line by line."""

    def __init__(self, log: LogTable, tables: ImportedTables) -> None:
        self._log = log
        self._tables = tables
        self._digest = hashlib.sha256()
        self._prev_hash = EMPTY.hash
        self._events = self._rows = 0
        self._schema_advice = ""

    def read(self, lines: Iterable[bytes]) -> ExportCounts:
        number = 0
        invalid = _INVALID + self._tables.write_errors
        for number, data in enumerate(lines, start=1):
            value = _parsed(data, number)
            if "end" in value:
                return self._finish(value["end"], number)
            self._digest.update(data)
            try:
                self._read_line(value, number)
            except invalid as exc:
                raise StartupError(
                    f"line {number} is not a line of an export: {exc}{self._schema_advice}"
                ) from exc
        raise StartupError(
            f"the export is incomplete after line {number}: its end is missing;"
            " nothing was imported"
        )

    def _read_line(self, value: dict[str, Any], number: int) -> None:
        if number == 1:
            self._check_header(value)
        elif "table" in value:
            row = {name: _decoded(encoded) for name, encoded in value["row"].items()}
            self._tables.insert(value["table"], row)
            self._rows += 1
        else:
            self._read_event(value, number)

    def _check_header(self, value: dict[str, Any]) -> None:
        newest = self._tables.schema
        if value.get("format") != FORMAT:
            raise StartupError(f"this is not an export of kais-knowledge: expected {FORMAT}")
        if value["schema"] > newest:
            raise StartupError(
                f"the export has schema {value['schema']}, this version knows up to {newest};"
                " import it with a newer version"
            )
        if value["schema"] < newest:
            self._schema_advice = (
                f"; the export has schema {value['schema']}, this version has {newest}:"
                " `rebuild` the database with this version, then export it again"
            )

    def _read_event(self, value: dict[str, Any], number: int) -> None:
        seq, scope_no, kind, actor, at, payload_hash, prev_hash = value["event"]
        hashes = (bytes.fromhex(payload_hash), bytes.fromhex(prev_hash))
        row = EventRow(seq, scope_no, kind, actor, at, *hashes)
        if row.prev_hash != self._prev_hash or seq != self._events + 1:
            raise StartupError(f"line {number}: event {seq} does not follow the one before it")
        payload = None
        if value["salt"] is not None:
            data = "\n".join(value["lines"]).encode()
            payload = StoredPayload(bytes.fromhex(value["salt"]), data)
            if payload.hash != row.payload_hash:
                raise StartupError(f"line {number}: event {seq} has another payload than recorded")
        self._log.insert([LogEntry(row, payload)])
        self._prev_hash = event_hash(row)
        self._events += 1

    def _finish(self, end: dict[str, Any], number: int) -> ExportCounts:
        counted = {"events": self._events, "rows": self._rows, "sha256": self._digest.hexdigest()}
        if end != counted:
            raise StartupError(
                f"line {number}: the export was changed or lines are missing"
                f" ({self._events} events, {self._rows} rows); nothing was imported"
            )
        return ExportCounts(self._events, self._rows)


def _parsed(data: bytes, number: int) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise StartupError(
            f"line {number} of the export is incomplete or not JSON ({exc}); nothing was imported"
        ) from exc
    if not isinstance(value, dict) or not data.endswith(b"\n"):
        raise StartupError(f"line {number} of the export is incomplete; nothing was imported")
    return value
