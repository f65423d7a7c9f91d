"""The merge of the index of substrings: keeps searches of the graph fast after many writes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from knowledge_service.workers.background import BackgroundWorker, OnRun

if TYPE_CHECKING:
    from knowledge_service.ports import Store

_EVERY_S = 30.0
# After each step the writer has this many times the step's duration for other writes.
_REST = 4.0


class IndexMerge(BackgroundWorker):
    """Merges in steps, and rests after each, so that no write waits for more than one step."""

    def __init__(self, store: Store, *, on_run: OnRun, every_s: float = _EVERY_S) -> None:
        tasks = {"index_merge": self.step}
        super().__init__("index-merge", tasks, retry_s=every_s, delay_s=every_s, on_run=on_run)
        self._store = store
        self._every_s = every_s

    def step(self) -> float:
        """Merge a part; return the seconds until the next step."""
        start = time.monotonic()
        if not self._store.merge_index():
            return self._every_s
        return _REST * (time.monotonic() - start)
