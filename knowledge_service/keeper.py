"""Keeps scopes within their bounds, erases deleted scopes and deletes old receipts: one thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
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
    """Runs its tasks one after the other until stopped; a task that fails runs again next round.

    Receipts older than `receipts_for` go, and with them the audit's entries of those recalls.
    `on_run` is told after each run of a task whether it succeeded.
    """

    def __init__(
        self,
        store: Store,
        *,
        every_s: float = _EVERY_S,
        receipts_for: timedelta | None = None,
        clock: Clock = clocks.now,
        on_run: Callable[[str, bool], None] = lambda _task, _succeeded: None,
    ) -> None:
        self._store = store
        self._receipts_for = receipts_for
        self._clock = clock
        self._every_s = every_s
        self._on_run = on_run
        self._tasks: dict[str, Callable[[], None]] = {
            "retention": self._retain,
            "erasure": self._erase,
            "receipts": self._forget,
        }
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
            for name, task in self._tasks.items():
                self._run(name, task)

    def _run(self, name: str, task: Callable[[], None]) -> None:
        """Run a task; whatever it raises is logged and counted, and ends this run only."""
        try:
            task()
        except StoreUnavailable as exc:
            _log.warning("%s waits for the store", name, extra={"fields": {"why": str(exc)}})
            self._on_run(name, False)
        except Exception:  # noqa: BLE001 - the thread must not end unnoticed
            _log.exception("%s failed; retrying in %g s", name, self._every_s)
            self._on_run(name, False)
        else:
            self._on_run(name, True)

    def _retain(self) -> None:
        count = self._store.retain()
        if count:
            _log.info("facts archived", extra={"fields": {"facts": count}})

    def _erase(self) -> None:
        total = 0
        while not self._stopping.is_set():
            count = self._store.erase_deleted()
            total += count
            if not count:
                break
        if total:
            _log.info("facts of deleted scopes erased", extra={"fields": {"facts": total}})

    def _forget(self) -> None:
        if self._receipts_for is None:
            return
        count = self._store.forget_recalls(self._clock() - self._receipts_for)
        if count:
            _log.info("receipts let go of", extra={"fields": {"receipts": count}})
