"""The retention worker: archives, erases deleted scopes and deletes old receipts."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from knowledge_service import clock as clocks
from knowledge_service.clock import Clock
from knowledge_service.workers.background import BackgroundWorker, OnRun

if TYPE_CHECKING:
    from knowledge_service.ports import Store

_log = logging.getLogger(__name__)
# A scope may exceed its limit for this long; a check without such scopes is one query.
_EVERY_S = 30.0


class RetentionWorker(BackgroundWorker):
    """Runs its tasks every `every_s` seconds.

    Receipts older than `receipts_for` are deleted, and with them their entries in the audit log.
    """

    def __init__(
        self,
        store: Store,
        *,
        on_run: OnRun,
        every_s: float = _EVERY_S,
        receipts_for: timedelta | None = None,
        clock: Clock = clocks.now,
    ) -> None:
        tasks = {
            "retention": self._archive,
            "erasure": self._erase,
            "receipts": self._delete_receipts,
        }
        super().__init__("retention", tasks, retry_s=every_s, delay_s=every_s, on_run=on_run)
        self._store = store
        self._every_s = every_s
        self._receipts_for = receipts_for
        self._clock = clock

    def _archive(self) -> float:
        count = self._store.retain()
        if count:
            _log.info("facts archived", extra={"fields": {"facts": count}})
        return self._every_s

    def _erase(self) -> float:
        total = 0
        while not self.is_stopping:
            count = self._store.erase_deleted()
            total += count
            if not count:
                break
        if total:
            _log.info("facts of deleted scopes erased", extra={"fields": {"facts": total}})
        return self._every_s

    def _delete_receipts(self) -> float:
        if self._receipts_for is not None:
            count = self._store.delete_old_receipts(self._clock() - self._receipts_for)
            if count:
                _log.info("receipts deleted", extra={"fields": {"receipts": count}})
        return self._every_s
