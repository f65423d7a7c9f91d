"""What the probes hear: not ready for stale watches, not alive only when the loop stands still."""

from __future__ import annotations

import asyncio
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from kais_operator.manager.metrics import Metrics
from kais_operator.manager.probes import HealthServer

STALE = "the watch of Pod has been silent for 181 s"


class Served:
    """A HealthServer in a loop of its own, as the operator runs it."""

    def __init__(self) -> None:
        self.problem: str | None = None
        self.loop = asyncio.new_event_loop()
        server = HealthServer(Metrics(), lambda: self.problem, host="127.0.0.1", port=0)
        self._server = server
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        self._port = asyncio.run_coroutine_threadsafe(server.start(), self.loop).result(10)

    def ask(self, path: str, *, within_s: float = 60) -> tuple[int, str]:
        try:
            url = f"http://127.0.0.1:{self._port}{path}"
            with urllib.request.urlopen(url, timeout=within_s) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as exc:
            with exc:
                return exc.code, exc.read().decode()

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._server.close(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()


@pytest.fixture
def served() -> Iterator[Served]:
    server = Served()
    yield server
    server.close()


def test_stale_watches_make_it_unready_in_words_and_leave_it_alive(served: Served):
    assert served.ask("/readyz") == (200, "ready\n")
    served.problem = STALE
    assert served.ask("/readyz") == (503, f"{STALE}\n")
    assert served.ask("/healthz") == (200, "the event loop turns\n")
    served.problem = None
    assert served.ask("/readyz") == (200, "ready\n")


def test_only_a_loop_that_stands_still_is_not_alive_and_its_lag_is_told(served: Served):
    moves_on = threading.Event()
    served.loop.call_soon_threadsafe(moves_on.wait)
    try:
        with pytest.raises(TimeoutError):
            served.ask("/healthz", within_s=2)
    finally:
        moves_on.set()
    assert served.ask("/healthz")[0] == 200
    deadline = time.monotonic() + 60
    while lag_of(served) < 1:
        assert time.monotonic() < deadline, "the loop's delay is not told"


def lag_of(served: Served) -> float:
    lines = served.ask("/metrics")[1].splitlines()
    (line,) = [line for line in lines if line.startswith("kais_loop_lag_seconds ")]
    return float(line.split()[1])
