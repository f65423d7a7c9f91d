"""Readiness of the store, checked at most once per interval. Thread-safe."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from knowledge_service.errors import StoreUnavailable

if TYPE_CHECKING:
    from knowledge_service.ports import Store

# A kubelet probes every 5 s; more frequent probes get the same result.
_MAX_AGE_S = 1.0


class Readiness:
    """The result of the last check of a store, at most `fresh_s` old."""

    def __init__(self, store: Store, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.fresh_s = _MAX_AGE_S
        self._store = store
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._checked_at_s: float | None = None
        self._problem: StoreUnavailable | None = None

    def check(self) -> None:
        """Return when the store answers; one caller checks, the others wait for its result.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        with self._lock:
            checked_at_s = self._checked_at_s
            if checked_at_s is None or self._monotonic() - checked_at_s >= self.fresh_s:
                self._problem = self._check_store()
                self._checked_at_s = self._monotonic()
            problem = self._problem
        if problem:
            raise StoreUnavailable(problem.detail)

    def check_alive(self) -> None:
        """Return unless only a restart can help.

        Raises:
            StoreUnavailable: with the reason.
        """
        self._store.check_alive()

    def _check_store(self) -> StoreUnavailable | None:
        try:
            self._store.check()
        except StoreUnavailable as exc:
            return exc
        return None
