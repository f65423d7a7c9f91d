"""The stream of changes and the audit in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from knowledge_client.models import (
    AuditEntry,
)
from knowledge_service.domain.access_control import ScopeRange, View
from knowledge_service.event_log import times
from knowledge_service.event_log.events import Event
from knowledge_service.ports import (
    AuditCursor,
    AuditRecords,
    ChangePage,
    ChangeRecord,
)
from tests.fakes.store_base import Base

_ENDS = ("from", "to", "origin", "copy", "used")


class Watched(Base):
    """The `ChangeStore` port."""

    def encryption_key(self) -> bytes:
        return b"the key of the store in memory.."

    def bounds(self) -> tuple[int, int]:
        self._check()
        return 0, len(self.book.log)

    def changes(self, after_position: int, view: View, *, limit: int) -> ChangePage:
        self._check()
        change_records: list[ChangeRecord] = []
        for event in self.book.log[after_position:]:
            change = self._change(event, view)
            if change:
                change_records.append(change)
            if len(change_records) == limit:
                return ChangePage(tuple(change_records), event.seq)
        return ChangePage(tuple(change_records), len(self.book.log))

    def _is_shown(self, part: Mapping[str, Any], view: View) -> bool:
        row = self.row(part["fact"]) if "fact" in part else None
        return row is None or view.can_read_fact(view.home, row.fact.review)

    def _change(self, event: Event, view: View) -> ChangeRecord | None:
        scope = self.book.scopes.get(event.seq)
        if scope is None or not view.can_read(scope):
            return None
        facts: list[str] = []
        created: list[str] = []
        run, session = None, None
        for part in event.remaining_parts():
            ends = [part[end] for end in _ENDS if end in part]
            if all(self.visible(end, view) for end in ends) and self._is_shown(part, view):
                facts += [*([part["fact"]] if "fact" in part else []), *ends]
                if event.type.startswith("usage."):
                    run, session = part.get("run"), part.get("session")
                created += [part["id"]] if event.type.startswith("link.") else []
        if not facts:
            return None
        rows = [row.fact for name in facts if (row := self.row(name)) and self.visible(name, view)]
        return ChangeRecord(
            event.seq, event.type, scope, event.actor, times.from_us(event.at),
            tuple(dict.fromkeys(facts)), tuple(created),
            run=run, session=session,
            kinds=tuple(sorted({fact.kind for fact in rows})),
            schemas=tuple(sorted({fact.schema_ for fact in rows if fact.schema_})),
        )  # fmt: skip

    def audit(
        self, scope_ranges: Sequence[ScopeRange], cursor: AuditCursor | None, *, limit: int
    ) -> AuditRecords:
        self._check()
        acts: list[tuple[datetime, int, AuditEntry]] = []
        for event in self.book.log:
            scope = self.book.scopes.get(event.seq)
            at = times.from_us(event.at)
            if scope and any(reach.covers(scope) for reach in scope_ranges):
                facts = [part["fact"] for part in event.remaining_parts() if "fact" in part]
                usages = [part["used"] for part in event.remaining_parts() if "used" in part]
                locations = {item: self._scope_of(item) for item in usages}
                facts += [
                    e for e, own in locations.items() if any(r.covers(own) for r in scope_ranges)
                ]
                part: Mapping[str, Any] = next(
                    (part for part in event.remaining_parts() if "used" in part), {}
                )
                entry = AuditEntry(
                    at=at, actor=event.actor, action=event.type, scope=scope,
                    facts=tuple(dict.fromkeys(facts)),
                    run=part.get("run"), session=part.get("session"),
                )  # fmt: skip
                acts.append((at, 0, entry))
        for new in self._receipts.values():
            receipt = new.receipt
            if any(reach.covers(new.observer) for reach in scope_ranges):
                entry = AuditEntry(
                    at=receipt.known_at, actor=receipt.acted_by or receipt.principal,
                    action="recall", scope=new.observer, facts=receipt.facts, run=receipt.run,
                    receipt=receipt.id,
                    on_behalf_of=receipt.principal if receipt.acted_by else None,
                )  # fmt: skip
                acts.append((receipt.known_at, 1, entry))
        acts.sort(key=lambda item: item[:2], reverse=True)
        start = cursor.event if cursor else 0
        entries = tuple(entry for _, _, entry in acts[start : start + limit])
        more = len(acts) > start + limit
        return AuditRecords(entries, AuditCursor(start + limit, 0, "") if more else None)
