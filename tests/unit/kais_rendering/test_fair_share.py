"""Places shared by namespace: who is admitted, and what a cancelled waiter leaves."""

import asyncio

from kais_rendering.fair_share import FairShare


class Workers:
    """Work that holds a slot until it is released, and the order in which it was admitted."""

    def __init__(self, share: FairShare) -> None:
        self._share = share
        self.admitted: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, asyncio.Event] = {}

    async def start(self, *names: str) -> None:
        """Start workers called `<namespace>/<number>`."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._work(name))
        await self._settle()

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await self._settle()

    async def cancel(self, name: str) -> None:
        self.tasks[name].cancel()
        await self._settle()

    async def _settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    async def _work(self, name: str) -> None:
        async with self._share.turn(name.partition("/")[0]):
            self.admitted.append(name)
            await self._ends[name].wait()


async def test_a_namespace_has_its_share_and_no_more_although_slots_are_free() -> None:
    workers = Workers(FairShare(10, max_per_namespace=2))
    await workers.start("a/1", "a/2", "a/3", "b/1")
    assert workers.admitted == ["a/1", "a/2", "b/1"]
    await workers.end("a/1")
    assert workers.admitted[3:] == ["a/3"]


async def test_a_freed_slot_goes_to_the_namespaces_in_turn() -> None:
    workers = Workers(FairShare(1, max_per_namespace=1))
    await workers.start("a/1", "a/2", "a/3", "b/1", "c/1")
    for name in ("a/1", "b/1", "c/1", "a/2"):
        await workers.end(name)
    assert workers.admitted == ["a/1", "b/1", "c/1", "a/2", "a/3"]


async def test_a_waiter_that_was_cancelled_takes_no_slot() -> None:
    workers = Workers(FairShare(1, max_per_namespace=1))
    await workers.start("a/1", "b/1", "c/1")
    await workers.cancel("b/1")
    await workers.end("a/1")
    assert workers.admitted == ["a/1", "c/1"]


async def test_work_that_was_cancelled_frees_its_slot() -> None:
    workers = Workers(FairShare(1, max_per_namespace=1))
    await workers.start("a/1", "b/1")
    await workers.cancel("a/1")
    assert workers.admitted == ["a/1", "b/1"]


async def test_a_waiter_cancelled_in_the_moment_of_its_admission_frees_the_slot() -> None:
    workers = Workers(FairShare(1, max_per_namespace=1))
    await workers.start("a/1", "b/1", "c/1")
    workers.tasks["a/1"].cancel()
    await asyncio.sleep(0)
    assert workers.tasks["a/1"].done()
    assert workers.admitted == ["a/1"], "b/1 is admitted, and has not run since"
    await workers.cancel("b/1")
    await workers.end("b/1")
    assert "c/1" in workers.admitted
