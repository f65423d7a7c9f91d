"""Probes without a token cost nothing, and metrics are told on a port of their own only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from kais_cluster.host import ports
from knowledge_service.asgi_app import create_app
from knowledge_service.authentication.disabled import NoAuthentication
from knowledge_service.errors import StoreUnavailable
from knowledge_service.store.sqlite.store import SqliteStore
from knowledge_service.use_cases.readiness import Readiness
from tests.fakes.clock import FakeClock
from tests.fakes.store import MemoryStore
from tests.knowledge_process import serving


class Counted(MemoryStore):
    """A store that counts how often it is looked at."""

    looks = 0

    def check(self) -> None:
        self.looks += 1
        super().check()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "knowledge.db")
    yield store
    store.close()


async def test_probes_of_a_store_that_is_well_write_nothing(
    store: SqliteStore, tmp_path: Path
) -> None:
    app = create_app(store, NoAuthentication())
    app.state.services.readiness.fresh_s = 0.0
    transport = httpx.ASGITransport(app)
    log = tmp_path / "knowledge.db-wal"
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as http:
        await http.post("/v1/facts", json={"content": "rain"})
        initial_content = log.read_bytes()
        for path in ("/readyz", "/health", "/healthz") * 5:
            assert (await http.get(path)).status_code == 200
    assert log.read_bytes() == initial_content


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/health"])
async def test_probe_may_have_parameters_of_its_own(store: SqliteStore, path: str) -> None:
    transport = httpx.ASGITransport(create_app(store, NoAuthentication()))
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as http:
        answer = await http.get(f"{path}?t=1&verbose")
    assert (answer.status_code, answer.json()["status"]) == (200, "ok")


async def test_store_is_looked_at_once_for_many_probes() -> None:
    store = Counted()
    app = create_app(store, NoAuthentication())
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as http:
        for path in ("/readyz", "/health") * 20:
            assert (await http.get(path)).status_code == 200
    assert store.looks == 1


def test_answer_is_a_second_old_at_most() -> None:
    store, clock = Counted(), FakeClock()
    readiness = Readiness(store, clock.monotonic)
    readiness.check()
    store.problem = "the disk is gone"
    readiness.check()
    clock.advance(1)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="the disk is gone"):
            readiness.check()
    store.problem = None
    clock.advance(1)
    readiness.check()
    assert store.looks == 3


def test_metrics_are_told_on_a_port_of_their_own_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (port,) = ports.free_ports(1)
    monkeypatch.setenv("KAIS_METRICS_PORT", str(port))
    with (
        serving(tmp_path / "knowledge.db") as served,
        httpx.Client(trust_env=False, timeout=20) as http,
    ):
        refusal = http.get(f"{served.url}/metrics")
        assert refusal.status_code == 404
        assert refusal.json()["code"] == "not-found"
        assert http.post(f"{served.url}/v1/recall", json={"query": "x"}).status_code == 200
        text = http.get(f"http://127.0.0.1:{port}/metrics").text
        assert 'kais_knowledge_requests_total{method="POST",route="/v1/recall"' in text


def test_without_a_port_nobody_is_told(tmp_path: Path) -> None:
    with serving(tmp_path / "knowledge.db") as served:
        answer = httpx.get(f"{served.url}/metrics", trust_env=False)
        assert answer.status_code == 404


def test_port_of_the_metrics_that_is_taken_ends_the_start_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path / "one.db") as first:
        monkeypatch.setenv("KAIS_METRICS_PORT", str(httpx.URL(first.url).port))
        with serving(tmp_path / "two.db") as second:
            assert second.process.wait(20) == 1
            assert "choose another with KAIS_METRICS_HOST and KAIS_METRICS_PORT" in second.said()


UNREADABLE = """
import apsw
from knowledge_service.store.sqlite.repositories import scope_erasure

def fail(connection):
    raise apsw.IOError("disk I/O error")

scope_erasure.count = fail
"""


def test_store_that_cannot_be_read_takes_no_metric_of_the_alerts_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (port,) = ports.free_ports(1)
    monkeypatch.setenv("KAIS_METRICS_PORT", str(port))
    with serving(tmp_path / "knowledge.db", UNREADABLE, is_ready=True) as served:
        httpx.get(f"{served.url}/v1/facts", trust_env=False)
        response = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False)
        assert response.status_code == 200
        assert "kais_knowledge_facts_to_erase NaN" in response.text
        assert 'kais_knowledge_requests_total{method="GET",route="/v1/facts"' in response.text
