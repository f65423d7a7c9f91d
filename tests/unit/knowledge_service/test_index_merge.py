from __future__ import annotations

import threading
import time
from collections import deque

import pytest

from knowledge_service.errors import StoreUnavailable
from knowledge_service.metrics import Metrics
from knowledge_service.workers.index_merge import IndexMerge
from tests.fakes.store import MemoryStore


class MergingStore(MemoryStore):
    """Has parts to merge, and notes the time of each step."""

    def __init__(self, *steps: bool | Exception) -> None:
        super().__init__()
        self.steps = deque(steps)
        self.ended = threading.Event()

    def merge_index(self) -> bool:
        if not self.steps:
            self.ended.set()
            return False
        step = self.steps.popleft()
        if isinstance(step, Exception):
            raise step
        time.sleep(0.001)
        return step


def test_index_is_merged_step_by_step_until_nothing_is_left_also_after_a_full_disk(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MergingStore(True, StoreUnavailable("database or disk is full"), True, False)
    worker = IndexMerge(store, every_s=0.001, on_run=Metrics().record_task_run)
    worker.start()
    assert store.ended.wait(60)
    worker.stop()
    assert "index_merge waits for the store" in caplog.text


def test_writer_has_time_for_other_writes_after_each_step_and_a_merged_index_rests() -> None:
    store = MergingStore(True)
    worker = IndexMerge(store, every_s=30, on_run=Metrics().record_task_run)
    assert 0.004 <= worker.step() < 30
    assert worker.step() == 30
