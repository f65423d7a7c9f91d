"""What hangs in one namespace costs the others nothing, and is tried less often each time."""

import asyncio
import inspect
import time
from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any

import pytest

from kais_operator import errors
from kais_operator.controllers import registry
from kais_operator.controllers.blueprint_revision import observe as blueprint_revision
from kais_operator.manager.predicates import OwnWriteFilter
from kais_operator.manager.reconciler import Reconciler
from kais_operator.manager.workqueue import WorkQueue
from kais_operator.planning.plan import Body, ObjectRef
from kais_operator.rendering import render_failures
from kais_operator.rendering.renderer import WAIT_S, WorkerRenderer
from kais_rendering.errors import RenderingFailed
from kais_rendering.fair_share import FairShare
from kais_rendering.worker_pool import RenderPool
from tests.fakes import blueprints
from tests.fakes.world import FakeWorld, fake_world

NAMES: dict[str, Any] = {"blueprint": "b", "revision": 1, "namespace": "n"}
SPEC = blueprints.blueprint()["spec"]
WORKERS = inspect.signature(RenderPool).parameters["workers"].default
LONG_S = 20
"""Time for a rendering, in which a harmless one ends on any machine while the others hang."""
ANSWER = {"is_good": True, "reason": "Compiled", "message": "fine", "errors": []}


def bomb(name: str) -> Body:
    """Give a Blueprint whose own default makes its parameter's pattern run for ever."""
    topic = {"name": "topic", "type": "string", "pattern": "(a+)+$", "default": "a" * 40 + "!"}
    count = {"name": "count", "type": "integer", "default": 1}
    mission = {"objective": f"{name} {{{{ topic }}}}", "entrypoint": {"cell": "worker"}}
    return blueprints.blueprint(name, namespace="loud", parameters=[topic, count], mission=mission)


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Limited(RenderPool):
    """A pool in which every request passes its limit of time, until it is mended."""

    def __init__(self) -> None:
        super().__init__(workers=1)
        self.requests = 0
        self.is_mended = False

    async def ask(self, line: bytes, *, namespace: str) -> dict[str, Any]:
        del line, namespace
        self.requests += 1
        if self.is_mended:
            return ANSWER
        raise RenderingFailed("rendering took more than 2 s", cap="time")


class Looking:
    """The operator's queue over a world; tells when a pass over an object ended."""

    def __init__(self, fake: FakeWorld) -> None:
        passes = Reconciler(fake.world, registry.CONTROLLERS, OwnWriteFilter(), requeue=self.add)
        self.queue = WorkQueue(
            passes, monotonic=time.monotonic, jitter=lambda: 0.5, observer=self._ended
        )
        self.ended: dict[ObjectRef, asyncio.Event] = {}
        self._running = asyncio.create_task(self.queue.run())

    def add(self, key: ObjectRef, delay_s: float = 0.0) -> None:
        self.queue.add(key, delay_s=delay_s)

    async def next_end(self, key: ObjectRef) -> None:
        self.ended[key] = asyncio.Event()
        await self.ended[key].wait()

    async def close(self) -> None:
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)

    def _ended(self, key: ObjectRef, *, result: str, seconds: float) -> None:
        del result, seconds
        if key in self.ended:
            self.ended.pop(key).set()


async def test_fifteen_hanging_blueprints_do_not_delay_a_compile_in_another_namespace() -> None:
    bombs = [bomb(f"bomb-{number}") for number in range(15)]
    renderer = WorkerRenderer(RenderPool(limit_s=LONG_S), wait_s=WAIT_S)
    fake = fake_world(*bombs, blueprints.blueprint(namespace="quiet"), renderer=renderer)
    harmless = ObjectRef("Blueprint", "quiet", "team")
    await warm(renderer)
    results: list[str] = []
    renderer._count = lambda operation, result, _: results.append(result)
    looking = Looking(fake)
    try:
        for body in bombs:
            looking.add(ObjectRef("Blueprint", "loud", body["metadata"]["name"]))
        await looking.next_end(ObjectRef("Blueprint", "loud", "bomb-14"))
        looking.add(harmless)
        while "servedRevision" not in fake.cluster.read(harmless).get("status", {}):
            await looking.next_end(harmless)
    finally:
        await looking.close()
        await renderer.close()
    assert results[:1] == ["ok"], "none of the hanging ones had to be stopped before"


async def warm(renderer: WorkerRenderer) -> None:
    """Wait until every worker has answered once; importing is no template's time."""
    names = [str(number) for number in range(WORKERS)]
    specs = [blueprints.blueprint(description=name)["spec"] for name in names]
    coroutines = [renderer.compile(spec, namespace=spec["description"]) for spec in specs]
    pending = await asyncio.gather(*coroutines, return_exceptions=True)
    await asyncio.gather(*(p.completion for p in pending if isinstance(p, errors.RenderingPending)))


async def test_a_pass_ends_while_its_template_is_rendered_and_is_made_again_after_it() -> None:
    renderer = WorkerRenderer(RenderPool(workers=1, limit_s=0.5), wait_s=0.01)
    fake = fake_world(bomb("bomb"), renderer=renderer)
    key = ObjectRef("Blueprint", "loud", "bomb")
    looking = Looking(fake)
    try:
        looking.add(key)
        await looking.next_end(key)
        assert "status" not in fake.cluster.read(key)
        await looking.next_end(key)
    finally:
        await looking.close()
        await renderer.close()
    (compiled,) = [
        c for c in fake.cluster.read(key)["status"]["conditions"] if c["type"] == "Compiled"
    ]
    assert compiled["message"] == (
        "revision 1: rendering took more than 0.5 s at parameter 'topic': its pattern does not end"
        " on this value; make the pattern simpler"
    )


async def test_who_asks_for_what_is_being_rendered_waits_for_the_same_answer() -> None:
    renderer = WorkerRenderer(RenderPool(workers=1))
    spec = blueprints.blueprint()["spec"]
    counted: list[str] = []
    renderer._count = lambda operation, result, _: counted.append(f"{operation} {result}")
    reports = await asyncio.gather(*(renderer.compile(spec, namespace=n) for n in "abc"))
    await renderer.close()
    assert [report.is_good for report in reports] == [True] * 3
    assert counted == ["compile ok"]


def limited() -> tuple[WorkerRenderer, Limited, Clock]:
    clock, pool = Clock(), Limited()
    renderer = WorkerRenderer(RenderPool(), monotonic=clock)
    renderer._pool = pool
    return renderer, pool, clock


async def failure(awaitable: Awaitable[Any]) -> errors.RenderingFailed:
    with pytest.raises(errors.RenderingFailed, match="more than 2 s") as caught:
        await awaitable
    return caught.value


async def test_what_ran_out_of_time_is_tried_again_ever_later_and_at_most_an_hour_later() -> None:
    renderer, pool, clock = limited()
    pauses = []
    for requests in range(1, 10):
        failed = await failure(renderer.compile(SPEC, namespace="n"))
        pauses.append(failed.retry_after_s)
        clock.now_s += failed.retry_after_s - 1
        assert (await failure(renderer.compile(SPEC, namespace="n"))).retry_after_s == 1
        assert pool.requests == requests, "not tried before its time"
        clock.now_s += 1
    assert pauses == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]


async def test_a_spec_that_ran_out_of_time_is_not_rendered_for_any_use_either() -> None:
    renderer, pool, _ = limited()
    await failure(renderer.compile(SPEC, namespace="n"))
    for use in ("one", "other"):
        await failure(renderer.render(SPEC, {}, instance=use, **NAMES))
    assert pool.requests == 1


async def test_parameters_that_ran_out_of_time_are_remembered_for_every_use_that_gives_them() -> (
    None
):
    renderer, pool, _ = limited()
    for use in ("one", "other"):
        await failure(renderer.render(SPEC, {"topic": "x"}, instance=use, **NAMES))
    assert pool.requests == 1
    await failure(renderer.render(SPEC, {"topic": "y"}, instance="one", **NAMES))
    assert pool.requests == 2, "other parameters may be harmless"


async def test_an_answer_ends_the_growth_of_the_pauses() -> None:
    renderer, pool, clock = limited()
    for _ in range(3):
        clock.now_s += (await failure(renderer.compile(SPEC, namespace="n"))).retry_after_s
    pool.is_mended = True
    assert (await renderer.compile(SPEC, namespace="n")).is_good
    assert renderer._failures._failures == {}


async def test_a_revision_that_ran_out_of_time_is_looked_at_when_it_may_be_tried_again() -> None:
    renderer, _, _ = limited()
    revision = blueprints.revision()
    fake = fake_world(revision, renderer=renderer)
    ref = ObjectRef("BlueprintRevision", "demo", revision["metadata"]["name"])
    plan = await fake.settle(blueprint_revision.CONTROLLER, ref)
    assert plan is not None
    assert plan.requeue_after == timedelta(seconds=render_failures.FIRST_PAUSE_S)


async def test_a_namespace_leaves_one_place_to_the_others() -> None:
    share = FairShare(3)
    holders = [await entered(share, "loud") for _ in range(2)]
    third = asyncio.create_task(share.turn("loud").__aenter__())
    await entered(share, "quiet")
    assert not third.done()
    await holders[0].__aexit__(None, None, None)
    await asyncio.wait_for(third, 60)


async def test_namespaces_that_wait_take_turns() -> None:
    share = FairShare(1)
    order: list[str] = []

    async def request(namespace: str) -> None:
        async with share.turn(namespace):
            order.append(namespace)
            await asyncio.sleep(0)

    await asyncio.gather(*(request(namespace) for namespace in ["a"] * 4 + ["b"] * 2 + ["c"]))
    assert order == ["a", "b", "c", "a", "b", "a", "a"]


async def test_who_gives_up_waiting_leaves_its_place_to_the_next() -> None:
    share = FairShare(1)
    holder = await entered(share, "a")
    leaving = asyncio.create_task(share.turn("b").__aenter__())
    following = asyncio.create_task(share.turn("b").__aenter__())
    await asyncio.sleep(0)
    leaving.cancel()
    await holder.__aexit__(None, None, None)
    await asyncio.wait_for(following, 60)


async def entered(share: FairShare, namespace: str) -> AbstractAsyncContextManager[None]:
    turn = share.turn(namespace)
    await asyncio.wait_for(turn.__aenter__(), 60)
    return turn
