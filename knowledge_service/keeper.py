"""Keeps scopes within their bounds and lets go of old receipts: a thread that asks now and then."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta
from typing import TYPE_CHECKING

from knowledge_service import clock as clocks
from knowledge_service.clock import Clock
from knowledge_service.errors import StoreUnavailable

if TYPE_CHECKING:
    from knowledge_service.ports import Store

_log = logging.getLogger(__name__)
# A scope may hold more than its bound for this long; asking costs one query while none does.
_EVERY_S = 30.0


class Keeper:
    """Archives what is beyond the bounds of scopes, until stopped.

    Receipts older than `receipts_for` go too, and with them the audit's entries of those recalls.
    """

    def __init__(
        self,
        store: Store,
        *,
        every_s: float = _EVERY_S,
        receipts_for: timedelta | None = None,
        clock: Clock = clocks.now,
    ) -> None:
        self._store = store
        self._receipts_for = receipts_for
        self._clock = clock
        self._every_s = every_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="keeper", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the round at hand and end."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _loop(self) -> None:
        while not self._stopping.wait(self._every_s):
            try:
                count = self._store.retain()
                self._forget()
            except StoreUnavailable as exc:
                _log.warning("retention waits for the store", extra={"fields": {"why": str(exc)}})
                continue
            if count:
                _log.info("facts archived", extra={"fields": {"facts": count}})

    def _forget(self) -> None:
        if self._receipts_for is None:
            return
        count = self._store.forget_recalls(self._clock() - self._receipts_for)
        if count:
            _log.info("receipts let go of", extra={"fields": {"receipts": count}})
