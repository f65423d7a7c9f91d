"""How far the opening of a database is: a line in the log now and then, and words for `/readyz`.

Shares are told and no numbers: how much a store holds is not everybody's to know.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

_log = logging.getLogger(__name__)
# A person who waits wants to see that it moves; a log that is kept wants few lines.
_LOG_INTERVAL_S = 10.0

Item = TypeVar("Item")


class Progress:
    """What is being done to a file. One thread does it, others read the words."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._step = "opening the database"
        self._started_s = self._logged_s = monotonic()
        self._percent: int | None = None

    @property
    def description(self) -> str:
        """Say what is being done, for how long, and how much of it is done."""
        share = "" if self._percent is None else f", {self._percent} % done"
        return f"{self._step} for {self._monotonic() - self._started_s:.0f} s{share}"

    @contextmanager
    def step(self, doing: str) -> Iterator[None]:
        """Tell that something begins and, when it ended well, how long it took."""
        self._step, self._percent = doing, None
        self._started_s = self._logged_s = self._monotonic()
        _log.info("upkeep begins", extra={"fields": {"doing": doing}})
        yield
        seconds = round(self._monotonic() - self._started_s, 3)
        _log.info("upkeep ended", extra={"fields": {"doing": doing, "seconds": seconds}})

    def track(self, items: Iterable[Item], total: int) -> Iterator[Item]:
        """Pass items on and count them towards the total."""
        for number, item in enumerate(items):
            self._percent = min(100, 100 * number // max(1, total))
            if self._monotonic() - self._logged_s >= _LOG_INTERVAL_S:
                self._logged_s = self._monotonic()
                _log.info("upkeep continues", extra={"fields": {"doing": self.description}})
            yield item
