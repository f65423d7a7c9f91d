"""Keeps declared scopes within their bounds: a thread that asks the store to, now and then."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from knowledge_service.errors import StoreUnavailable

if TYPE_CHECKING:
    from knowledge_service.ports import Store

_log = logging.getLogger(__name__)
# A scope may hold more than its bound for this long; asking costs one query while none does.
_EVERY_S = 30.0


class Keeper:
    """Archives what is beyond the bounds of scopes, until stopped."""

    def __init__(self, store: Store, *, every_s: float = _EVERY_S) -> None:
        self._store = store
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
            except StoreUnavailable as exc:
                _log.warning("retention waits for the store", extra={"fields": {"why": str(exc)}})
                continue
            if count:
                _log.info("facts archived", extra={"fields": {"facts": count}})
