"""The progress of opening a database, for the log and for `/readyz`.

It reports percentages and no counts, because `/readyz` needs no token and how much a store holds is
not public.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

_log = logging.getLogger(__name__)
# Often enough for a person who waits, with few lines in the log.
_LOG_INTERVAL_S = 10.0

Item = TypeVar("Item")


class Progress:
    """The current step of one thread; other threads read its description."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._step = "opening the database"
        self._started_s = self._logged_s = monotonic()
        self._percent: int | None = None

    @property
    def description(self) -> str:
        """Describe the current step, its duration, and the share that is done."""
        share = "" if self._percent is None else f", {self._percent} % done"
        return f"{self._step} for {self._monotonic() - self._started_s:.0f} s{share}"

    @contextmanager
    def step(self, doing: str) -> Iterator[None]:
        """Log the beginning of a step and, unless it fails, its duration."""
        self._step, self._percent = doing, None
        self._started_s = self._logged_s = self._monotonic()
        _log.info("upkeep begins", extra={"fields": {"doing": doing}})
        yield
        seconds = round(self._monotonic() - self._started_s, 3)
        _log.info("upkeep ended", extra={"fields": {"doing": doing, "seconds": seconds}})

    def track(self, items: Iterable[Item], total: int) -> Iterator[Item]:
        """Yield the items and count them towards the total."""
        for number, item in enumerate(items):
            self._percent = min(100, 100 * number // max(1, total))
            if self._monotonic() - self._logged_s >= _LOG_INTERVAL_S:
                self._logged_s = self._monotonic()
                _log.info("upkeep continues", extra={"fields": {"doing": self.description}})
            yield item
