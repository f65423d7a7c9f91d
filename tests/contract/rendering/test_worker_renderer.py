import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kais_operator import errors
from kais_operator.rendering.renderer import WorkerRenderer
from kais_rendering import worker_handle
from kais_rendering.worker_pool import RenderPool
from tests.fakes import blueprints

NAMES: dict[str, Any] = {"blueprint": "b", "revision": 1, "instance": "i", "namespace": "n"}
CATASTROPHE = {
    "parameters": [{"name": "topic", "type": "string", "pattern": "(a+)+$"}],
    "mission": None,
}
HANG = {"topic": "a" * 40 + "!"}


@pytest.fixture
async def renderer() -> AsyncIterator[WorkerRenderer]:
    created = WorkerRenderer(RenderPool(workers=1, limit_s=0.5, memory_mib=64))
    yield created
    await created.close()


async def test_a_pattern_that_never_ends_is_stopped_and_the_loop_goes_on(
    renderer: WorkerRenderer,
) -> None:
    await renderer.compile(
        blueprints.blueprint()["spec"], namespace="n"
    )  # warm: what follows is the limit alone
    turns = asyncio.create_task(_count_turns())
    message_pattern = r"more than 0\.5 s at parameter 'topic'"
    with pytest.raises(errors.RenderingFailed, match=message_pattern) as failed:
        await renderer.render(blueprints.blueprint(**CATASTROPHE)["spec"], HANG, **NAMES)
    turns.cancel()
    assert failed.value.cap == "time"
    assert (await turns) >= 5, "a loop that is blocked turns once or twice"


async def test_time_in_which_the_worker_got_no_processor_is_not_the_templates(
    renderer: WorkerRenderer,
) -> None:
    spec = blueprints.blueprint()["spec"]
    await renderer.compile(spec, namespace="n")
    worker = await renderer._pool._idle.get()
    assert worker is not None
    renderer._pool._idle.put_nowait(worker)
    os.kill(worker.pid, signal.SIGSTOP)
    asking = asyncio.create_task(renderer.render(spec, {}, **NAMES))
    await asyncio.sleep(1.2)
    os.kill(worker.pid, signal.SIGCONT)
    await asking
    assert worker.is_alive


async def test_time_in_which_the_operators_loop_was_busy_is_not_the_templates(
    renderer: WorkerRenderer,
) -> None:
    spec = blueprints.blueprint()["spec"]
    await renderer.compile(spec, namespace="n")
    asking = asyncio.create_task(renderer.render(spec, {}, **NAMES))
    await asyncio.sleep(0)
    time.sleep(1)  # noqa: ASYNC251 - what is tried here is a loop that does not turn
    await asking


async def test_where_no_processor_time_is_told_the_clock_is_the_limit(
    renderer: WorkerRenderer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(worker_handle, "_PROC", tmp_path)  # as on macOS
    spec = blueprints.blueprint()["spec"]
    assert (await renderer.compile(spec, namespace="n")).is_good
    with pytest.raises(errors.RenderingFailed, match=r"more than 0\.5 s") as failed:
        await renderer.render(blueprints.blueprint(**CATASTROPHE)["spec"], HANG, **NAMES)
    assert failed.value.cap == "time"


async def test_a_worker_that_was_killed_is_replaced(renderer: WorkerRenderer) -> None:
    with pytest.raises(errors.RenderingFailed):
        await renderer.render(blueprints.blueprint(**CATASTROPHE)["spec"], HANG, **NAMES)
    assert (await renderer.compile(blueprints.blueprint()["spec"], namespace="n")).is_good


@pytest.mark.parametrize(
    "leaf",
    [
        "{{ 'a' * 1000000000 }}",
        "{{ '%01000000000d' % 1 }}",
        "{{ 'x'|center(500000000) }}",
        "{{ '{:>1000000000}'.format(1) }}",
        "{{ 9**9**9 }}",
        "{% for a in range(1000) %}{% for b in range(1000) %}x{% endfor %}{% endfor %}",
        "{{ ''.__class__.__mro__ }}",
    ],
)
async def test_a_bomb_is_an_error_that_names_its_leaf(renderer: WorkerRenderer, leaf: str) -> None:
    await renderer.compile(blueprints.blueprint()["spec"], namespace="n")  # start first
    spec = blueprints.blueprint(mission={"objective": leaf})["spec"]
    started = time.monotonic()
    try:
        message = (await renderer.compile(spec, namespace="n")).message
    except errors.RenderingFailed as exc:
        message = str(exc)
    assert "mission.objective" in message
    assert time.monotonic() - started < 120, "the worker is stopped, or it would never answer"


async def test_a_request_that_is_given_up_leaves_the_pool_whole(renderer: WorkerRenderer) -> None:
    await renderer.compile(blueprints.blueprint()["spec"], namespace="n")
    hanging = asyncio.create_task(
        renderer.render(blueprints.blueprint(**CATASTROPHE)["spec"], HANG, **NAMES)
    )
    await asyncio.sleep(0.1)
    hanging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hanging
    rendered = await renderer.render(blueprints.blueprint()["spec"], {"topic": "x"}, **NAMES)
    assert rendered.to_dict()["rendered"]["values"] == {"topic": "x", "count": 1}


async def test_more_requests_than_workers_wait_their_turn(renderer: WorkerRenderer) -> None:
    spec = blueprints.blueprint()["spec"]
    made = await asyncio.gather(
        *(renderer.render(spec, {"topic": str(n)}, **NAMES) for n in range(20))
    )
    assert [m.to_dict()["rendered"]["values"]["topic"] for m in made] == [str(n) for n in range(20)]


async def test_a_spec_is_compiled_once() -> None:
    asked = 0

    class Counting(RenderPool):
        async def ask(self, line: bytes, *, namespace: str) -> dict[str, Any]:
            del line, namespace
            nonlocal asked
            asked += 1
            return {"is_good": True, "reason": "Compiled", "message": "fine", "errors": []}

    renderer = WorkerRenderer(RenderPool())
    renderer._pool = Counting()
    for _ in range(3):
        assert (await renderer.compile({"formation": {}}, namespace="n")).is_good
    assert asked == 1


async def _count_turns() -> int:
    """Count pauses of 10 ms until cancelled."""
    turns = 0
    try:
        while True:
            await asyncio.sleep(0.01)
            turns += 1
    except asyncio.CancelledError:
        return turns
