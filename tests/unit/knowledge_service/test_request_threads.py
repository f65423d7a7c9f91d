from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from knowledge_service.use_cases.request_threads import RequestThreads

WITHIN_S = 10


async def test_call_returns_its_result_from_another_thread() -> None:
    assert await RequestThreads().run(threading.get_ident) != threading.get_ident()


async def test_exception_of_a_call_reaches_its_caller_and_the_thread_goes_on() -> None:
    threads = RequestThreads()
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 / 0)
    assert await threads.run(lambda: "next") == "next"


async def test_calls_at_the_same_time_have_a_thread_each() -> None:
    threads, meeting = RequestThreads(), threading.Barrier(3)
    calls = [threads.run(lambda: meeting.wait(WITHIN_S)) for _ in range(3)]
    assert sorted(await asyncio.gather(*calls)) == [0, 1, 2]


async def test_idle_thread_takes_the_next_call() -> None:
    threads = RequestThreads()
    first = await threads.run(threading.get_ident)
    assert {await threads.run(threading.get_ident) for _ in range(5)} == {first}


async def test_thread_that_ended_its_call_last_takes_the_next() -> None:
    threads, meeting = RequestThreads(), threading.Barrier(3)

    def meet() -> int:
        meeting.wait(WITHIN_S)
        return threading.get_ident()

    await asyncio.gather(*(threads.run(meet) for _ in range(3)))
    first = await threads.run(threading.get_ident)
    assert {await threads.run(threading.get_ident) for _ in range(5)} == {first}


async def test_call_runs_to_its_end_when_its_caller_gives_up() -> None:
    threads, begun, go_on, ended = RequestThreads(), *(threading.Event() for _ in range(3))

    def call() -> None:
        begun.set()
        assert go_on.wait(WITHIN_S)
        ended.set()

    task = asyncio.create_task(threads.run(call))
    assert await asyncio.to_thread(begun.wait, WITHIN_S)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await threads.run(lambda: "another") == "another", "it waits for no thread"
    go_on.set()
    assert await asyncio.to_thread(ended.wait, WITHIN_S)


async def test_callers_that_give_up_leave_no_more_threads_than_the_maximum() -> None:
    threads, go_on = RequestThreads(max_threads=3), threading.Event()
    before = threading.active_count()
    for _ in range(40):
        task = asyncio.create_task(threads.run(lambda: go_on.wait(WITHIN_S)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert threading.active_count() - before <= 3
    go_on.set()
    assert await threads.run(lambda: "next") == "next"


async def test_call_whose_thread_cannot_be_started_runs_never(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads, calls = RequestThreads(), []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", _refuse_to_start)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            await threads.run(lambda: calls.append("refused"))
    await threads.run(lambda: calls.append("next"))
    assert calls == ["next"]


def _refuse_to_start(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


async def test_threads_end_with_their_owner() -> None:
    threads, meeting = RequestThreads(), threading.Barrier(2)

    def call() -> threading.Thread:
        meeting.wait(WITHIN_S)
        return threading.current_thread()

    workers = await asyncio.gather(threads.run(call), threads.run(call))
    del threads
    gc.collect()
    for worker in workers:
        await asyncio.to_thread(worker.join, WITHIN_S)
        assert not worker.is_alive()
