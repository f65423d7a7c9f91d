"""An erasure waits for the reads that began before it, and for no others."""

from __future__ import annotations

import asyncio
import time

from knowledge_service.open_reads import OpenRead, OpenReads

LIMIT_S = 60.0


async def test_wait_ends_with_the_last_read_that_began_before_the_erasure() -> None:
    reads = OpenReads()
    earlier = [reads.begin(), reads.begin()]
    waiting = asyncio.create_task(reads.wait(time.monotonic(), LIMIT_S))
    await asyncio.sleep(0)
    later = reads.begin()
    reads.end(earlier[0])
    await asyncio.sleep(0)
    assert not waiting.done()
    reads.end(earlier[1])
    await asyncio.wait_for(waiting, LIMIT_S)
    reads.end(later)


async def test_wait_ignores_reads_that_began_after_the_erasure() -> None:
    reads = OpenReads()
    erased_at_s = time.monotonic()
    reads.begin()
    await asyncio.wait_for(reads.wait(erased_at_s, 10 * LIMIT_S), LIMIT_S)


async def test_wait_for_a_read_that_does_not_end_is_limited() -> None:
    reads = OpenReads()
    numbers = [reads.begin(), reads.begin()]
    assert await asyncio.wait_for(reads.wait(time.monotonic(), 0.01), LIMIT_S) == 2
    reads.end(numbers[0])
    assert await asyncio.wait_for(reads.wait(time.monotonic(), 0.01), LIMIT_S) == 1
    reads.end(numbers[1])
    assert await asyncio.wait_for(reads.wait(time.monotonic(), LIMIT_S), LIMIT_S) == 0


async def test_read_of_a_client_that_has_left_does_not_stay_open() -> None:
    reads = OpenReads()
    read = OpenRead(reads)
    read.end()
    read.begin()  # a tool that still runs
    await asyncio.wait_for(reads.wait(time.monotonic(), 10 * LIMIT_S), LIMIT_S)


async def test_read_begins_once() -> None:
    reads = OpenReads()
    read = OpenRead(reads)
    read.begin()
    read.begin()
    read.end()
    await asyncio.wait_for(reads.wait(time.monotonic(), 10 * LIMIT_S), LIMIT_S)
