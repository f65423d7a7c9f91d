from __future__ import annotations

import logging

import pytest

from knowledge_service.errors import StoreUnavailable
from knowledge_service.store.sqlite.db import deferred_writes
from knowledge_service.store.sqlite.db.deferred_writes import DeferredQueue


class Seconds:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def queue(seconds: Seconds) -> DeferredQueue[int]:
    return DeferredQueue(seconds)


def fill(queue: DeferredQueue[int], count: int) -> None:
    for number in range(count):
        queue.append(number)


def test_fresh_jobs_go_few_at_a_time_and_oldest_first(queue: DeferredQueue[int]) -> None:
    fill(queue, 20)
    assert queue.take(8) == list(range(8))
    assert queue.take(8) == list(range(8, 16))


def test_jobs_whose_time_has_come_go_many_at_a_time(
    queue: DeferredQueue[int], seconds: Seconds
) -> None:
    fill(queue, 300)
    seconds.now_s += deferred_writes.DELAY_S
    queue.append(300)
    portions = [len(queue.take(8)) for _ in range(4)]
    assert portions == [128, 128, 44, 1], "the last one is fresh"


def test_lag_has_a_bound_when_each_commit_takes_a_second(
    queue: DeferredQueue[int], seconds: Seconds
) -> None:
    refused = longest_s = 0.0
    for _ in range(60):
        for number in range(200):  # more than one commit takes
            try:
                queue.append(number)
            except StoreUnavailable:
                refused += 1
        seconds.now_s += 1.0
        longest_s = max(longest_s, queue.waiting_s)
        queue.take(8)
    assert refused > 0
    assert longest_s <= 10.0, "what came in 5 s goes in 128 a second"
    assert len(queue) <= 4_096


def test_queue_has_a_bound_and_says_what_waits(
    queue: DeferredQueue[int], caplog: pytest.LogCaptureFixture
) -> None:
    fill(queue, 4_096)
    for _ in range(3):
        with pytest.raises(StoreUnavailable) as caught:
            queue.append(0)
    assert caught.value.detail == (
        "4096 receipts wait for the disk, the oldest for 0.0 s; this one is not stored"
    )
    assert caplog.messages == ["receipts are not stored: the disk is slow"]
    queue.take(8)
    with caplog.at_level(logging.INFO):
        queue.append(0)
    assert caplog.messages[-1] == "receipts are stored again"


def test_job_is_refused_while_the_oldest_waits_for_too_long(
    queue: DeferredQueue[int], seconds: Seconds
) -> None:
    queue.append(0)
    seconds.now_s += 5.1
    with pytest.raises(StoreUnavailable, match=r"the oldest for 5\.1 s"):
        queue.append(1)
    assert queue.take(8) == [0]
    queue.append(1)
