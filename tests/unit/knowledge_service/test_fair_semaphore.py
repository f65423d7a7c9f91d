"""A client that stops waiting for a slot takes none and delays no other."""

from __future__ import annotations

import asyncio

import pytest

from knowledge_service.use_cases.concurrency_limits import Client, FairSemaphore

LIMIT_S = 60.0
FIRST, SECOND = (Client(name, f"realm:{name}", 1) for name in ("first", "second"))


@pytest.fixture
def semaphore() -> FairSemaphore:
    """A semaphore whose only slot the first client holds."""
    semaphore = FairSemaphore(1)
    assert semaphore.take_free(FIRST)
    return semaphore


async def test_slot_goes_to_the_client_that_waits(semaphore: FairSemaphore) -> None:
    waiting = asyncio.create_task(semaphore.wait(SECOND, LIMIT_S))
    await asyncio.sleep(0)
    assert not waiting.done()
    semaphore.release(FIRST)
    await asyncio.wait_for(waiting, LIMIT_S)
    assert not semaphore.take_free(FIRST)


async def test_client_whose_time_is_over_leaves_the_queue(semaphore: FairSemaphore) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(semaphore.wait(SECOND, 0.01), LIMIT_S)
    semaphore.release(FIRST)
    assert semaphore.take_free(FIRST)


async def test_cancelled_client_leaves_the_queue(semaphore: FairSemaphore) -> None:
    waiting = asyncio.create_task(semaphore.wait(SECOND, LIMIT_S))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    semaphore.release(FIRST)
    assert semaphore.take_free(FIRST)


async def test_client_that_is_cancelled_with_a_slot_gives_it_back(
    semaphore: FairSemaphore,
) -> None:
    waiting = asyncio.create_task(semaphore.wait(SECOND, LIMIT_S))
    await asyncio.sleep(0)
    semaphore.release(FIRST)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert semaphore.take_free(FIRST)


async def test_client_that_is_cancelled_when_its_time_is_over_gives_no_slot_back(
    semaphore: FairSemaphore,
) -> None:
    waiting = asyncio.create_task(semaphore.wait(SECOND, LIMIT_S))
    await asyncio.sleep(0)
    semaphore._give_up(SECOND, semaphore._waiting[SECOND][0])
    waiting.cancel()
    with pytest.raises((asyncio.CancelledError, TimeoutError)):
        await waiting
    assert not semaphore.take_free(FIRST)
    semaphore.release(FIRST)
    assert semaphore.take_free(FIRST)
    assert not semaphore.take_free(SECOND)
