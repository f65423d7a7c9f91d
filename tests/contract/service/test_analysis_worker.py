"""The analysis worker finds what the service does; ended or silent, it loses nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from knowledge_service.analysis_worker.client import AnalysisWorker
from knowledge_service.asgi_app import create_app
from knowledge_service.domain.fact_text import FactText
from knowledge_service.ports import Listing
from knowledge_service.search.text import batch_analysis
from knowledge_service.store.sqlite.maintenance import offline_rebuild
from knowledge_service.store.sqlite.store import SqliteStore
from tests.contract.service.callers import CALLERS
from tests.fakes.identity import NamedCallers
from tests.knowledge_builders import ALL, TEAM

TEXTS = (
    "rain in May 7",
    "password: hunter22x",
    "ignore all previous instructions",
    "é \u2028 \\n",
    " ",
)
PATIENCE_S = 0.5


class Hands:
    """A clock that is moved by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Hands:
    return Hands()


@pytest.fixture
def worker(clock: Hands) -> Iterator[AnalysisWorker]:
    analysis_worker = AnalysisWorker(batches=1, idle_s=60, patience_s=PATIENCE_S, monotonic=clock)
    yield analysis_worker
    analysis_worker.stop()


def body(number: int, count: int = 40) -> bytes:
    facts = [
        {"content": f"{TEXTS[n % len(TEXTS)]} {number} {n}", "scope": TEAM, "tags": ["a"] * (n % 2)}
        for n in range(count)
    ]
    return json.dumps({"facts": facts}).encode()


def texts(number: int, count: int = 40) -> list[FactText]:
    return [
        FactText("fact", fact["content"], None, tuple(fact["tags"]))
        for fact in json.loads(body(number, count))["facts"]
    ]


def assert_finds_all(worker: AnalysisWorker, number: int) -> None:
    sent = texts(number)
    assert worker.analyse(sent) == batch_analysis.analyse_batch(sent)


def started(worker: AnalysisWorker) -> int:
    """Have it started; return the process id."""
    deadline = time.monotonic() + 60
    while worker._socket is None:
        assert_finds_all(worker, 0)
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert worker._process
    return worker._process.pid


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def the_child() -> int:
    """Wait for a analysis worker of this one."""
    deadline = time.monotonic() + 60
    while True:
        for task in Path("/proc/self/task").iterdir():
            for pid in (task / "children").read_text().split():
                if (
                    b"knowledge_service.analysis_worker"
                    in Path(f"/proc/{pid}/cmdline").read_bytes()
                ):
                    return int(pid)
        assert time.monotonic() < deadline


def wait_gone(pid: int) -> None:
    deadline = time.monotonic() + 60
    while is_alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def wait_ended(worker: AnalysisWorker) -> None:
    deadline = time.monotonic() + 60
    while worker._thread:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_is_found_there_is_found_here(worker: AnalysisWorker) -> None:
    pid = started(worker)
    for number in range(5):
        assert_finds_all(worker, number)
    assert is_alive(pid)


def test_process_imports_no_library_that_only_the_service_needs() -> None:
    program = (
        "import sys, knowledge_service.analysis_worker.__main__;"
        "print([name for name in ('numpy', 'pydantic', 'httpx', 'apsw') if name in sys.modules])"
    )
    completed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    assert completed.stdout == "[]\n"


def test_killed_process_is_done_without_and_comes_again_after_a_while(
    worker: AnalysisWorker, clock: Hands
) -> None:
    pid = started(worker)
    os.kill(pid, signal.SIGKILL)
    for number in range(3):
        assert_finds_all(worker, number)
    wait_ended(worker)
    assert_finds_all(worker, 3)
    assert worker._thread is None  # not at once again
    clock.now += 60
    assert started(worker) != pid


def test_process_that_hangs_is_waited_for_no_longer_than_patience(worker: AnalysisWorker) -> None:
    pid = started(worker)
    os.kill(pid, signal.SIGSTOP)
    begin = time.monotonic()
    assert_finds_all(worker, 1)
    assert time.monotonic() - begin < 20 * PATIENCE_S
    wait_gone(pid)
    assert_finds_all(worker, 2)


def test_process_ends_when_nobody_asks(clock: Hands) -> None:
    worker = AnalysisWorker(batches=1, idle_s=0.3, monotonic=clock)
    wait_gone(started(worker))
    assert_finds_all(worker, 1)
    worker.stop()


def test_process_ends_with_the_service(worker: AnalysisWorker) -> None:
    pid = started(worker)
    worker.stop()
    assert not is_alive(pid)


def test_stop_while_it_starts_leaves_nothing(clock: Hands) -> None:
    worker = AnalysisWorker(batches=1, monotonic=clock)
    assert_finds_all(worker, 0)
    worker.stop()
    assert worker._process is None
    assert worker._thread is None


def test_stop_while_it_starts_and_hangs_is_no_longer_than_a_process_is_waited_for(
    clock: Hands,
) -> None:
    worker = AnalysisWorker(batches=1, monotonic=clock)
    assert_finds_all(worker, 0)
    pid = the_child()
    os.kill(pid, signal.SIGSTOP)
    begin = time.monotonic()
    worker.stop()
    assert time.monotonic() - begin < 25, "a pod is given 30 s for everything"
    assert not is_alive(pid)


def test_thread_that_cannot_be_had_is_done_without(worker: AnalysisWorker, clock: Hands) -> None:
    initial_stack_size = threading.stack_size(1 << 47)  # more than there are addresses
    try:
        assert_finds_all(worker, 0)
    finally:
        threading.stack_size(initial_stack_size)
    assert_finds_all(worker, 1)
    assert worker._thread is None  # not at once again
    clock.now += 60
    assert started(worker)


def test_large_batch_is_waited_for_as_long_as_it_takes(worker: AnalysisWorker) -> None:
    pid = started(worker)
    text = " ".join(f"w{n:x}-{n * 7919:x}" for n in range(600))[:8000]
    sent = [FactText("fact", f"{n} {text[n:]}", None, ()) for n in range(200)]
    worker._patience_s = 0  # beside what the size of a batch gives
    assert worker.analyse(sent) == batch_analysis.analyse_batch(sent)
    assert is_alive(pid)


def test_process_of_another_version_is_not_asked(
    clock: Hands, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("knowledge_service.analysis_worker.version.VERSION", b"0.0.9 en-1")
    worker = AnalysisWorker(batches=1, monotonic=clock)
    assert_finds_all(worker, 0)
    wait_ended(worker)
    assert worker._socket is None
    (record,) = caplog.records
    assert "another version of kais-knowledge; restart the service" in str(
        record.__dict__["fields"]
    )
    worker.stop()


@pytest.mark.parametrize("size", [0, 3, 1 << 20, (1 << 32) - 1])
def test_garbage_in_the_place_of_an_answer_is_done_without(
    worker: AnalysisWorker, size: int
) -> None:
    started(worker)
    own_connection, theirs = socket.socketpair()
    real, worker._socket = worker._socket, own_connection
    assert real
    real.close()
    theirs.sendall(struct.pack("<I", size) + b"\x92\x90\x90")
    assert_finds_all(worker, 1)
    theirs.close()


def test_small_batches_and_few_of_them_start_nothing(clock: Hands) -> None:
    worker = AnalysisWorker(batches=3, monotonic=clock)
    for _ in range(9):
        worker.analyse(texts(0, count=5))
    for number in range(9):  # large, but never many within a while
        clock.now += 8
        assert_finds_all(worker, number)
    assert worker._thread is None


async def test_import_loses_and_doubles_nothing_while_the_process_is_killed(
    tmp_path: Path, worker: AnalysisWorker, clock: Hands
) -> None:
    path = tmp_path / "knowledge.db"
    pid = started(worker)
    with contextlib.closing(SqliteStore(path)) as store:
        app = create_app(store, NamedCallers(CALLERS), analyse_texts=worker.analyse)
        transport = httpx.ASGITransport(app)
        headers = {"Authorization": "Bearer operator", "content-type": "application/json"}
        async with httpx.AsyncClient(transport=transport, base_url="http://kais") as http:

            async def send(number: int) -> None:
                answer = await http.post("/v1/facts:batch", content=body(number), headers=headers)
                assert answer.status_code == 201, answer.text

            for number in range(0, 12, 2):
                if number in (4, 8):
                    os.kill(pid, signal.SIGKILL)
                await asyncio.gather(send(number), send(number + 1))
                if number in (4, 8):
                    await asyncio.to_thread(wait_ended, worker)
                clock.now += 60
                pid = await asyncio.to_thread(started, worker)
        contents = [fact.content for fact in store.list_facts(Listing(ALL, 10_000))]
    assert len(contents) == len(set(contents)) == 12 * 40
    assert offline_rebuild.verify(path).problems == ()
    assert offline_rebuild.rebuild(path).changed == ()
