"""The service answers recalls while its search process is late, hangs, dies or is missing.

Each test runs the real service with the real process.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from kais_cluster.host import ports
from knowledge_service import http_limits
from tests.knowledge_builders import TEAM
from tests.knowledge_process import Served, serving

CLIENTS = 16
FACTS = 400
# The default limit of a recall.
RETURNED = 20
LIMIT_S = 60.0
READS_WITHIN_S = 8
# What a response may take beyond the time of a read: the grace of a second, and this machine.
MARGIN_S = 5
MOMENTS = ("before", "after")
OPEN_CONNECTIONS = 40
UNFINISHED = (
    b"POST /v1/recall HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    b"content-length: 100\r\n\r\n"
)
# The soft limit of most systems.
DEFAULT_DESCRIPTORS = 1024
# For a restart, exports, a backup, the analysis worker, and requests to the cluster and to models.
RESERVED_DESCRIPTORS = 100
NO_PAUSE = """
from knowledge_service.search_process.client import SearchProcess
SearchProcess.__init__.__kwdefaults__["pause_s"] = 0.2
"""


@dataclass(frozen=True)
class Service:
    served: Served
    metrics_url: str

    @property
    def url(self) -> str:
        return self.served.url

    @property
    def process(self) -> subprocess.Popen[str]:
        return self.served.process

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.served.said().splitlines()]


@dataclass(frozen=True)
class Response:
    status: int
    seconds: float
    facts: int


@contextmanager
def service(path: Path, script: str = "", **environment: str) -> Iterator[Service]:
    """Serve some facts, once the search process is ready or has failed."""
    (metrics_port,) = ports.free_ports(1)
    environment |= {"KAIS_METRICS_PORT": str(metrics_port)}
    program = f"import os\nos.environ.update({environment!r})\n{textwrap.dedent(script)}"
    with serving(path, program, is_ready=True) as started:
        served = Service(started, f"http://127.0.0.1:{metrics_port}/metrics")
        facts = [
            {"content": f"the build {n} needs Java {n % 30}", "scope": TEAM} for n in range(FACTS)
        ]
        for begin in range(0, FACTS, 200):
            body = {"facts": facts[begin : begin + 200]}
            answer = httpx.post(f"{served.url}/v1/facts:batch", json=body, trust_env=False)
            assert answer.status_code == 201, answer.text
        yield served


def recall(served: Service, client: httpx.Client, query: str = "java build") -> Response:
    begin = time.monotonic()
    answer = client.post(f"{served.url}/v1/recall", json={"query": query}, timeout=LIMIT_S)
    seconds = time.monotonic() - begin
    facts = len(answer.json()["facts"]) if answer.is_success else 0
    return Response(answer.status_code, seconds, facts)


class Recalls:
    """The recalls of 16 clients that run until they are stopped."""

    def __init__(self, served: Service) -> None:
        self._served = served
        self._stopped = threading.Event()
        self._answered = threading.Semaphore(0)
        self._pool = ThreadPoolExecutor(CLIENTS)
        self._clients = [self._pool.submit(self._repeat) for _ in range(CLIENTS)]

    def _repeat(self) -> list[Response]:
        responses = []
        with httpx.Client(trust_env=False) as client:
            while not self._stopped.is_set():
                responses.append(recall(self._served, client))
                self._answered.release()
        return responses

    def wait_for(self, count: int) -> None:
        for _ in range(count):
            assert self._answered.acquire(timeout=LIMIT_S)

    def stop(self) -> list[Response]:
        self._stopped.set()
        responses = [response for client in self._clients for response in client.result()]
        self._pool.shutdown()
        return responses


def wait_until(condition: Callable[[], Any]) -> Any:
    ends_at_s = time.monotonic() + LIMIT_S
    while not (value := condition()):
        assert time.monotonic() < ends_at_s
        time.sleep(0.02)
    return value


def search_processes(served: Service) -> list[int]:
    tasks = list(Path(f"/proc/{served.process.pid}/task").iterdir())
    children = [int(pid) for task in tasks for pid in proc_text(task / "children").split()]
    return [pid for pid in children if is_search_process(pid)]


def is_search_process(pid: int) -> bool:
    state = proc_text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()[:1]
    return "search_process" in proc_text(Path(f"/proc/{pid}/cmdline")) and state != ["Z"]


def proc_text(path: Path) -> str:
    """Return a file of a process or thread; "" if it has ended since it was listed."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def metric(served: Service, sample: str) -> float:
    """Return a sample; 0 if there is none."""
    text = httpx.get(served.metrics_url, trust_env=False).text
    values = [line.rpartition(" ") for line in text.splitlines()]
    return sum(float(value) for name, _, value in values if name == sample)


def ready_process(served: Service) -> int:
    """Wait until the service uses its process; return its id."""
    wait_until(lambda: metric(served, "kais_knowledge_search_process_up") == 1)
    (pid,) = search_processes(served)
    return pid


def warnings(served: Service) -> list[dict[str, Any]]:
    return [line for line in served.log() if line["message"] == "the service searches by itself"]


def wrapped_interpreter(folder: Path, commands: str) -> str:
    """Return a script with which the service runs commands before, or as, its search process."""
    wrapper = folder / "python"
    program = f'#!/bin/sh\ncase "$*" in *search_process*) {commands} ;; esac\n'
    wrapper.write_text(f'{program}exec "{sys.executable}" "$@"\n')
    wrapper.chmod(0o755)
    return f"import sys\nsys.executable = {str(wrapper)!r}\n"


SLOW = """
import time
from knowledge_service.search import pipeline
from knowledge_service.search_process.__main__ import main

retrieve = pipeline.retrieve
count = ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000)"
         " SELECT count(*) FROM n")

def slow(snapshot, query, config):
    end = time.monotonic() + SECONDS
    while "slow" in query.text and time.monotonic() < end:
        snapshot._connection.execute(count).fetchall()
    return retrieve(snapshot, query, config)

pipeline.retrieve = slow
main()
"""


def slow_searches(folder: Path, seconds: float) -> str:
    """Return a script with which searches of "slow" take some seconds in the process."""
    program = folder / "slow_search_process.py"
    program.write_text(SLOW.replace("SECONDS", str(seconds)))
    return wrapped_interpreter(folder, f'exec "{sys.executable}" "{program}"')


@pytest.mark.alone
def test_search_that_is_late_is_refused_in_time_and_the_process_lives(tmp_path: Path) -> None:
    script = slow_searches(tmp_path, 2.8)
    with service(tmp_path / "k.db", script, KAIS_READ_SECONDS="3") as served:
        process_id = ready_process(served)
        with ThreadPoolExecutor(4) as pool, httpx.Client(trust_env=False) as client:
            calls = [pool.submit(recall, served, client, "slow java") for _ in range(4)]
            responses = [call.result() for call in calls]
        statuses = [response.status for response in responses]
        assert statuses.count(503) >= 2, "two wait for their turn"
        assert set(statuses) <= {200, 503, 504}
        assert max(response.seconds for response in responses) < 3 + MARGIN_S
        assert warnings(served) == []
        assert search_processes(served) == [process_id]


def test_process_killed_amid_recalls_fails_none_and_is_replaced(tmp_path: Path) -> None:
    with service(tmp_path / "k.db", NO_PAUSE) as served:
        killed = [ready_process(served)]
        recalls = Recalls(served)
        for _ in range(3):
            recalls.wait_for(100)
            os.kill(killed[-1], signal.SIGKILL)
            (replacement,) = wait_until(
                lambda: [pid for pid in search_processes(served) if pid not in killed]
            )
            killed.append(replacement)
        recalls.wait_for(100)
        responses = recalls.stop()
        assert {response.status for response in responses} == {200}
        assert {response.facts for response in responses} == {RETURNED}
        reasons = [warning["why"] for warning in warnings(served)]
        # A replacement may be killed before it is ready.
        assert set(reasons) <= {f"SIGKILL ended it {when} it was ready" for when in MOMENTS}
        failures = 'kais_knowledge_search_process_failures_total{reason="signalled"}'
        assert (len(reasons), metric(served, failures)) == (3, 3)


@pytest.mark.alone
def test_process_that_hangs_amid_recalls_delays_them_within_bounds_and_is_replaced(
    tmp_path: Path,
) -> None:
    with service(tmp_path / "k.db", NO_PAUSE) as served:
        hanging = ready_process(served)
        recalls = Recalls(served)
        recalls.wait_for(100)
        os.kill(hanging, signal.SIGSTOP)
        wait_until(lambda: [pid for pid in search_processes(served) if pid != hanging])
        recalls.wait_for(200)
        responses = recalls.stop()
        assert {response.status for response in responses} == {200}
        assert max(response.seconds for response in responses) < READS_WITHIN_S + 1.5
        (warning,) = warnings(served)
        assert warning["reason"] == "unresponsive"
        assert "it did not answer a ping within 2 s; search " in warning["why"]


def test_signal_to_the_process_group_lets_the_process_finish_its_searches(tmp_path: Path) -> None:
    script = "os.setsid()\n" + slow_searches(tmp_path, 3)
    with service(tmp_path / "k.db", script) as served:
        process_id = ready_process(served)
        with ThreadPoolExecutor(1) as pool, httpx.Client(trust_env=False) as client:
            busy_ticks = processor_ticks(process_id) + 20
            call = pool.submit(recall, served, client, "slow java")
            wait_until(lambda: processor_ticks(process_id) > busy_ticks)
            os.killpg(served.process.pid, signal.SIGTERM)
            response = call.result()
        assert (response.status, response.facts) == (200, RETURNED)
        assert response.seconds > 2.9, "the service searched by itself"
        assert served.process.wait(LIMIT_S) == 0
        assert warnings(served) == []
        assert not Path(f"/proc/{process_id}").exists()


def processor_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_process_without_file_descriptors_leaves_the_searches_to_the_service(
    tmp_path: Path,
) -> None:
    script = """
    import resource
    from knowledge_service.search_process.client import SearchProcess
    start = SearchProcess.start
    def start_without_descriptors(self):
        limit = len(os.listdir("/proc/self/fd")) + 12
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        start(self)
    SearchProcess.start = start_without_descriptors
    """
    with service(tmp_path / "k.db", script) as served:
        (warning,) = wait_until(lambda: warnings(served))
        with httpx.Client(trust_env=False) as client:
            assert recall(served, client).facts == RETURNED
        assert warning["reason"] == "not_started"
        assert "Too many open files" in warning["why"]


def test_all_connections_in_use_leave_file_descriptors_for_a_restart_and_maintenance(
    tmp_path: Path,
) -> None:
    """The limits of connections and descriptors are lowered by the same number.

    64 connections beyond the limit may wait for their refusal, so as many descriptors are missing.
    """
    script = f"""{NO_PAUSE}
import resource
from knowledge_service import http_limits
missing = http_limits._MAX_CONNECTIONS - {OPEN_CONNECTIONS} + http_limits._MAX_REFUSED
http_limits._MAX_CONNECTIONS = {OPEN_CONNECTIONS}
resource.setrlimit(resource.RLIMIT_NOFILE, ({DEFAULT_DESCRIPTORS} - missing,) * 2)
"""
    with service(tmp_path / "k.db", script) as served, ExitStack() as connections:
        url = httpx.URL(served.url)
        process_id = ready_process(served)
        client = connections.enter_context(httpx.Client(trust_env=False))
        assert recall(served, client).facts == RETURNED
        descriptors = len(list(Path(f"/proc/{served.process.pid}/fd").iterdir()))
        for _ in range(OPEN_CONNECTIONS - 1):
            connection = socket.create_connection((url.host, url.port or 0), timeout=LIMIT_S)
            connections.enter_context(connection)
            connection.sendall(UNFINISHED)
        assert recall(served, client).facts == RETURNED
        os.kill(process_id, signal.SIGKILL)
        wait_until(lambda: [pid for pid in search_processes(served) if pid != process_id])
        wait_until(lambda: metric(served, "kais_knowledge_search_process_up") == 1)
        assert [warning["reason"] for warning in warnings(served)] == ["signalled"]
        missing = http_limits._MAX_CONNECTIONS + http_limits._MAX_REFUSED
        assert descriptors - 1 + missing + RESERVED_DESCRIPTORS <= DEFAULT_DESCRIPTORS


def test_fault_of_the_supervisor_is_reported_as_such(tmp_path: Path) -> None:
    script = f"""{NO_PAUSE}
from knowledge_service.search_process import running_process
start = running_process.start
def fail():
    running_process.start = start
    raise RuntimeError("no such state")
running_process.start = fail
"""
    with service(tmp_path / "k.db", script) as served:
        ready_process(served)
        (warning,) = warnings(served)
        assert warning["reason"] == "supervisor_error"
        assert warning["why"] == "its supervisor failed: RuntimeError('no such state')"
        failures = 'kais_knowledge_search_process_failures_total{reason="supervisor_error"}'
        assert metric(served, failures) == 1


def test_process_without_memory_leaves_the_searches_to_the_service(tmp_path: Path) -> None:
    script = wrapped_interpreter(tmp_path, "ulimit -v 50000")
    with service(tmp_path / "k.db", script) as served:
        (warning,) = wait_until(lambda: warnings(served))
        with httpx.Client(trust_env=False) as client:
            assert recall(served, client).facts == RETURNED
        assert warning["reason"] == "not_ready"
        assert warning["why"].startswith("it exited with status 1 before it was ready: ")
        assert warning["stderr"].startswith("Traceback")


def test_process_that_crashes_reports_its_signal_and_stack(tmp_path: Path) -> None:
    with service(tmp_path / "k.db") as served:
        os.kill(ready_process(served), signal.SIGSEGV)
        (warning,) = wait_until(lambda: warnings(served))
        assert warning["reason"] == "signalled"
        assert warning["why"].startswith("SIGSEGV ended it after it was ready")
        assert "Fatal Python error: Segmentation fault" in warning["stderr"]


def test_process_opens_only_the_database_for_writing(tmp_path: Path) -> None:
    with service(tmp_path / "k.db") as served:
        process_id = ready_process(served)
        writable = {
            descriptor.readlink()
            for descriptor in Path(f"/proc/{process_id}/fd").iterdir()
            if is_writable(process_id, descriptor.name)
        }
        files = {path.name for path in writable if path.is_absolute() and path != Path(os.devnull)}
        assert files == {"k.db", "k.db-wal", "k.db-shm"}


def is_writable(pid: int, descriptor: str) -> bool:
    flags = Path(f"/proc/{pid}/fdinfo/{descriptor}").read_text().split("flags:")[1].split()[0]
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY


def test_process_ends_when_the_service_is_killed_amid_recalls(tmp_path: Path) -> None:
    with service(tmp_path / "k.db", slow_searches(tmp_path, 30)) as served:
        process_id = ready_process(served)
        busy_ticks = processor_ticks(process_id) + 20
        with ThreadPoolExecutor(1) as pool, httpx.Client(trust_env=False) as client:
            call = pool.submit(recall, served, client, "slow java")
            wait_until(lambda: processor_ticks(process_id) > busy_ticks)
            ended = select.poll()
            descriptor = os.pidfd_open(process_id)
            ended.register(descriptor, select.POLLIN)
            served.process.kill()
            with pytest.raises(httpx.TransportError):
                call.result()
        assert ended.poll(LIMIT_S * 1000)
        os.close(descriptor)
