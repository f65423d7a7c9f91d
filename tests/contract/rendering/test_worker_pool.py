"""The pool of render workers: limits, environment, and what follows the death of a worker."""

import inspect
import json
import os
import signal
from pathlib import Path

import pytest

from kais_rendering import errors, worker_pool, worker_program
from kais_rendering.worker_pool import RenderPool
from tests.fakes import blueprints


def test_a_worker_ends_itself_later_than_its_parent_ends_it() -> None:
    limit_s = inspect.signature(RenderPool).parameters["limit_s"].default
    assert limit_s * worker_pool.PATIENCE < worker_program._ALARM_S


async def test_a_worker_may_not_grow_beyond_its_memory() -> None:
    workers = RenderPool(workers=1, memory_mib=64)
    await workers.start()
    worker = await workers._idle.get()
    assert worker is not None
    await worker.ready()
    limits = _proc(worker.pid, "limits")
    size_kib = next(
        int(line.split()[1])
        for line in _proc(worker.pid, "status").splitlines()
        if line.startswith("VmSize")
    )
    limit = next(int(line.split()[3]) for line in limits.splitlines() if "address space" in line)
    await worker.kill()
    assert abs(limit - (size_kib * 1024 + 64 * 2**20)) < 4 * 2**20


async def test_memory_that_runs_out_is_said_and_the_next_request_is_served() -> None:
    workers = RenderPool(workers=1, memory_mib=8)
    try:
        huge = {"op": "compile", "spec": {"formation": {"x": [{}] * 200_000}}}
        with pytest.raises(errors.RenderingFailed, match="more than 8 MiB of memory"):
            await workers.ask(json.dumps(huge).encode(), namespace="n")
        good = {"op": "compile", "spec": blueprints.blueprint()["spec"]}
        assert (await workers.ask(json.dumps(good).encode(), namespace="n"))["is_good"] is True
    finally:
        await workers.close()


async def test_a_worker_that_dies_between_requests_is_not_noticed() -> None:
    workers = RenderPool(workers=1)
    good = json.dumps({"op": "compile", "spec": blueprints.blueprint()["spec"]}).encode()
    try:
        await workers.ask(good, namespace="n")
        worker = await workers._idle.get()
        assert worker is not None
        os.kill(worker.pid, signal.SIGKILL)
        workers._idle.put_nowait(worker)
        assert (await workers.ask(good, namespace="n"))["is_good"] is True
    finally:
        await workers.close()


async def test_the_worker_is_given_no_environment() -> None:
    workers = RenderPool(workers=1)
    await workers.start()
    worker = await workers._idle.get()
    assert worker is not None
    await worker.ready()
    environment = _proc(worker.pid, "environ").split("\0")
    await worker.kill()
    assert {entry.split("=")[0] for entry in environment if entry} == {"PYTHONPATH"}


def _proc(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text()
