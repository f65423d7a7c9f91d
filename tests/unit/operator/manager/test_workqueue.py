"""The queue's promises: once waiting, once running, earlier wins, backoff, drain, cancel."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kais_operator.manager import workqueue

pytestmark = pytest.mark.simulated_time


def test_a_waiting_key_is_not_doubled():
    schedule: workqueue.Schedule[str] = workqueue.Schedule()
    schedule.add("a", at=1)
    schedule.add("a", at=1)
    assert schedule.pop_due(2) == "a"
    schedule.finish("a")
    assert schedule.pop_due(2) is None


def test_of_due_keys_the_patient_one_goes_last():
    schedule: workqueue.Schedule[str] = workqueue.Schedule()
    schedule.add("words", at=1, priority_delay_s=5)
    schedule.add("late words", at=0, priority_delay_s=2)
    schedule.add("work", at=3)
    assert schedule.oldest_age_s(4) == 4
    assert [schedule.pop_due(4) for _ in range(4)] == ["late words", "work", "words", None]


def test_patience_delays_nothing_when_nobody_else_is_due():
    schedule: workqueue.Schedule[str] = workqueue.Schedule()
    schedule.add("words", at=1, priority_delay_s=5)
    assert schedule.next_due_at() == 1
    assert schedule.pop_due(1) == "words"


def test_who_asks_at_once_ends_the_patience():
    schedule: workqueue.Schedule[str] = workqueue.Schedule()
    schedule.add("words", at=1, priority_delay_s=5)
    schedule.add("work", at=2)
    schedule.add("words", at=1.5)
    assert [schedule.pop_due(3), schedule.pop_due(3), schedule.pop_due(3)] == [
        "words",
        "work",
        None,
    ]


def test_the_backlog_is_as_old_as_the_first_key_that_waits_without_a_delay():
    schedule: workqueue.Schedule[str] = workqueue.Schedule()
    schedule.add("status", at=1, is_delayed=True)
    assert schedule.backlog_age_s(9) == 0
    schedule.add("new", at=2)
    schedule.add("newer", at=3)
    schedule.add("new", at=4)
    assert schedule.backlog_age_s(9) == 7
    assert [schedule.pop_due(9), schedule.pop_due(9)] == ["status", "new"]
    assert schedule.backlog_age_s(9) == 6
    assert schedule.pop_due(9) == "newer"
    assert schedule.backlog_age_s(9) == 0


def test_a_key_that_waits_for_its_own_end_is_no_backlog():
    schedule: workqueue.Schedule[str] = workqueue.Schedule()
    schedule.add("slow", at=1)
    assert schedule.pop_due(1) == "slow"
    schedule.add("slow", at=2)
    assert schedule.backlog_age_s(9) == 0
    schedule.add("new", at=5)
    assert schedule.backlog_age_s(9) == 4
    schedule.finish("slow")
    assert schedule.backlog_age_s(9) == 7


def test_of_two_times_the_earlier_wins():
    schedule: workqueue.Schedule[str] = workqueue.Schedule()
    schedule.add("a", at=10)
    schedule.add("a", at=3)
    schedule.add("a", at=7)
    assert schedule.next_due_at() == 3
    assert schedule.pop_due(2.9) is None
    assert schedule.pop_due(3) == "a"
    assert schedule.next_due_at() is None


def test_a_key_added_while_it_runs_waits_for_the_end_of_the_run():
    schedule: workqueue.Schedule[str] = workqueue.Schedule()
    schedule.add("a", at=0)
    assert schedule.pop_due(0) == "a"
    schedule.add("a", at=0)
    assert schedule.pop_due(5) is None
    assert len(schedule) == 1
    schedule.finish("a")
    assert schedule.pop_due(5) == "a"


def test_keys_run_in_the_order_in_which_they_are_due():
    schedule: workqueue.Schedule[str] = workqueue.Schedule()
    for key, at in (("c", 3), ("a", 1), ("b", 2), ("d", 3)):
        schedule.add(key, at=at)
    assert [schedule.pop_due(9) for _ in range(5)] == ["a", "b", "c", "d", None]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "take", "done"]),
            st.sampled_from("abc"),
            st.integers(0, 9),
            st.integers(0, 5),
        )
    )
)
def test_no_history_runs_a_key_twice_or_loses_one(history):
    schedule: workqueue.Schedule[str] = workqueue.Schedule()
    running: set[str] = set()
    waiting: dict[str, tuple[int, int]] = {}  # when, and how urgent
    now = 0
    for step, key, at, patience in history:
        if step == "add":
            schedule.add(key, at=at, priority_delay_s=patience)
            initial_items = waiting.get(key, (at, at + patience))
            waiting[key] = (min(at, initial_items[0]), min(at + patience, initial_items[1]))
        elif step == "take":
            now = max(now, at)  # no clock goes back
            due = {k: urgent for k, (t, urgent) in waiting.items() if t <= now and k not in running}
            taken_name = schedule.pop_due(now)
            assert (taken_name is None) == (not due)
            if taken_name is not None:
                assert due[taken_name] == min(due.values())
                running.add(taken_name)
                del waiting[taken_name]
        elif key in running:
            schedule.finish(key)
            running.remove(key)
        assert len(schedule) == len(waiting)
        assert schedule.running == len(running)


@pytest.mark.parametrize(
    ("failures", "cap_s", "dice", "expected"),
    [
        (1, 300, 0.0, 0.1),
        (1, 300, 1.0, 0.2),
        (4, 300, 1.0, 1.6),
        (40, 300, 1.0, 300),
        (40, 30, 0, 15),
    ],
)
def test_backoff_doubles_up_to_its_cap(failures, cap_s, dice, expected):
    assert workqueue.backoff_s(failures, cap_s=cap_s, jitter=dice) == pytest.approx(expected)


class Recorder:
    """Work that notes what runs, and how many runs of one key overlap."""

    def __init__(self, pause_s: float = 0.0) -> None:
        self.pause_s = pause_s
        self.runs: Counter[str] = Counter()
        self.now: Counter[str] = Counter()
        self.most_of_one = 0
        self.most_of_all = 0

    async def __call__(self, key: str) -> float | None:
        self.now[key] += 1
        self.most_of_one = max(self.most_of_one, self.now[key])
        self.most_of_all = max(self.most_of_all, self.now.total())
        try:
            await asyncio.sleep(self.pause_s)
            self.runs[key] += 1
        finally:
            self.now[key] -= 1
        return None


def queue_of(task, **kwargs) -> workqueue.WorkQueue[str]:
    kwargs = {"monotonic": asyncio.get_running_loop().time, "jitter": lambda: 0.0, **kwargs}
    return workqueue.WorkQueue(task, **kwargs)


async def run_for(queue: workqueue.WorkQueue[str], seconds: float) -> None:
    running = asyncio.create_task(queue.run())
    await asyncio.sleep(seconds)
    queue.stop()
    await running


async def test_a_key_never_runs_twice_at_a_time():
    recorder = Recorder(pause_s=0.01)
    queue = queue_of(recorder)
    running = asyncio.create_task(queue.run())
    for _ in range(20):
        queue.add("a")
        queue.add("b")
        await asyncio.sleep(0.003)
    await asyncio.sleep(0.03)
    queue.stop()
    await running
    assert recorder.most_of_one == 1
    assert recorder.most_of_all == 2
    assert 2 <= recorder.runs["a"] < 20


async def test_no_more_keys_run_than_there_are_workers():
    recorder = Recorder(pause_s=0.01)
    queue = queue_of(recorder, workers=3)
    for number in range(12):
        queue.add(str(number))
    await run_for(queue, 0.1)
    assert recorder.most_of_all == 3
    assert len(recorder.runs) == 12


async def test_work_chooses_the_time_of_the_next_look():
    times: list[float] = []

    async def work(_: str) -> float | None:
        times.append(asyncio.get_running_loop().time())
        return 0.02 if len(times) < 3 else None

    queue = queue_of(work)
    queue.add("a")
    await run_for(queue, 0.12)
    assert len(times) == 3
    assert times[1] - times[0] >= 0.019


async def test_a_key_that_fails_runs_again_and_does_not_stop_the_others(caplog):
    tries: Counter[str] = Counter()

    async def work(key: str) -> float | None:
        tries[key] += 1
        if key == "bad":
            raise ValueError("broken")
        return None

    results: list[tuple[str, str]] = []
    queue = queue_of(work, observer=lambda key, *, result, seconds: results.append((key, result)))
    queue.add("bad")
    queue.add("good")
    await run_for(queue, 0.15)
    assert tries["good"] == 1
    assert tries["bad"] == 2
    assert ("bad", "error") in results
    assert ("good", "ok") in results
    assert "bad: reconcile failed; next in" in caplog.text


async def test_a_retry_is_bounded_by_what_is_due_anyway():
    tries = 0

    async def work(_: str) -> float | None:
        nonlocal tries
        tries += 1
        raise workqueue.Backoff("the store is away", cap_s=30, within_s=0.01)

    queue = queue_of(work)
    queue.add("a")
    await run_for(queue, 0.1)
    assert tries > 4


async def test_stop_lets_the_running_finish_and_takes_no_more():
    recorder = Recorder(pause_s=0.05)
    queue = queue_of(recorder, workers=1)
    queue.add("a")
    queue.add("b")
    running = asyncio.create_task(queue.run())
    await asyncio.sleep(0.01)
    queue.stop()
    await running
    assert recorder.runs == {"a": 1}
    assert queue.depth == 1


async def test_cancel_stops_what_runs_at_once():
    recorder = Recorder(pause_s=5)
    queue = queue_of(recorder)
    queue.add("a")
    running = asyncio.create_task(queue.run())
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert recorder.runs == {}
    assert recorder.now.total() == 0


async def test_a_key_under_way_is_finished_before_others_are_started() -> None:
    order: list[str] = []

    async def begin_and_finish(key: str) -> float | None:
        order.append(key)
        return 0.0 if order.count(key) == 1 else None

    queue = queue_of(
        begin_and_finish,
        workers=1,
        priority_delay_s=lambda key, _: -30.0 if key in order else 0.0,
    )
    for key in ("first", "second", "third"):
        queue.add(key)
    await run_for(queue, 0.1)
    assert order == ["first", "first", "second", "second", "third", "third"]
