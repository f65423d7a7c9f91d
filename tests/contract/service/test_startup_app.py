"""A database that takes long to open: who asks is told, nobody is taken for dead, and a kill costs
only the step at hand."""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path

import apsw
import httpx

from knowledge_service.store.sqlite.store import SqliteStore
from tests.contract.store.test_projections import M001
from tests.knowledge_builders import ALL
from tests.knowledge_process import errand, serving

# Each item of the work takes so long that somebody can look; the work itself is the real one.
SLOW = """
import time
from knowledge_service import startup_progress
honest = startup_progress.Progress.track
def slow(self, items, total):
    for item in honest(self, items, total):
        yield item
        time.sleep({pause})
startup_progress.Progress.track = slow
"""


def old_file(path: Path) -> None:
    """Put a file of the oldest schema there."""
    connection = apsw.Connection(str(path))
    connection.execute(M001.read_text())
    connection.close()


def test_who_asks_meanwhile_is_told_how_far_it_is(tmp_path: Path) -> None:
    old_file(tmp_path / "knowledge.db")
    script = SLOW.format(pause=0.1)
    with serving(tmp_path / "knowledge.db", script) as service:
        with httpx.Client(base_url=service.url, trust_env=False, timeout=5) as client:
            assert client.get("/healthz").json()["status"] == "ok"
            ready = client.get("/readyz")
            assert (ready.status_code, ready.json()["status"]) == (503, "unavailable")
            message_pattern = (
                r"(migrating to schema \d+ of \d+ \(m\d{3}_\w+\)|rebuilding the index)"
            )
            assert re.fullmatch(
                rf"{message_pattern} for \d+ s(, \d+ % done)?; try again", ready.json()["detail"]
            )
            response = client.post("/v1/facts", json={"content": "x"})
            assert (response.status_code, response.json()["code"]) == (503, "store-unavailable")
            assert response.headers["retry-after"] == "2"
            assert response.headers["content-type"] == "application/problem+json"
            _until_ready(client)
            assert client.post("/v1/facts", json={"content": "x"}).status_code == 201
        assert '"upkeep ended"' in service.said()


def test_no_connection_is_refused_while_the_service_takes_the_address_over(tmp_path: Path) -> None:
    old_file(tmp_path / "knowledge.db")
    with serving(tmp_path / "knowledge.db", SLOW.format(pause=0.1)) as service:
        statuses = []
        end = time.monotonic() + 30
        while 200 not in statuses and time.monotonic() < end:
            response = httpx.get(f"{service.url}/readyz", timeout=20, trust_env=False)
            statuses.append(response.status_code)
        assert set(statuses) == {200, 503}


def test_signal_meanwhile_ends_it_at_once_and_takes_the_step_at_hand_back(tmp_path: Path) -> None:
    db = tmp_path / "knowledge.db"
    old_file(db)
    with serving(db, SLOW.format(pause=3600)) as service:
        assert "migrating to schema 2" in httpx.get(f"{service.url}/readyz", trust_env=False).text
        service.process.terminate()
        # As process 1 of a container it has no other end than one that it gives itself.
        assert service.process.wait(10) == 143
    assert errand("verify", "--db", db).returncode == 0
    connection = apsw.Connection(str(db))
    assert connection.execute("SELECT max(number) FROM migration").fetchall() == [(1,)]
    connection.close()


def test_killed_migration_goes_on_with_the_step_that_it_was_killed_in(tmp_path: Path) -> None:
    db = tmp_path / "knowledge.db"
    old_file(db)
    with serving(db, SLOW.format(pause=3600)) as service:
        detail = httpx.get(f"{service.url}/readyz", trust_env=False).json()["detail"]
        assert "migrating to schema 2" in detail
        service.process.kill()
        service.process.wait()
    connection = apsw.Connection(str(db))
    assert connection.execute("SELECT max(number) FROM migration").fetchall() == [(1,)]
    connection.close()
    store = SqliteStore(db)
    assert store.list_scopes(ALL)
    store.close()
    assert errand("verify", "--db", db).returncode == 0


OCCUPY = """
import socket
from knowledge_service import startup_checks
def occupy(settings):
    global taken
    taken = socket.create_server((settings.host, settings.port))
startup_checks.check_settings = occupy
"""


def test_address_that_is_taken_meanwhile_ends_the_service(tmp_path: Path) -> None:
    old_file(tmp_path / "knowledge.db")
    with serving(tmp_path / "knowledge.db", OCCUPY + SLOW.format(pause=3600)) as service:
        assert service.process.wait(20) != 0
        assert "address already in use" in service.said()
    assert errand("verify", "--db", tmp_path / "knowledge.db").returncode == 0


def test_database_that_cannot_be_opened_after_a_while_ends_the_service(tmp_path: Path) -> None:
    old_file(tmp_path / "knowledge.db")
    script = (
        SLOW.format(pause=0.1)
        + """
from knowledge_service import errors
from knowledge_service.store.sqlite import store
opened = store.SqliteStore.__init__
def fail(self, *given, **named):
    opened(self, *given, **named)
    self.close()
    raise errors.StartupError("the disk went away; look for it")
store.SqliteStore.__init__ = fail
"""
    )
    with serving(tmp_path / "knowledge.db", script) as service:
        assert httpx.get(f"{service.url}/healthz", trust_env=False).status_code == 200
        assert service.process.wait(30) == 1
        assert service.said().endswith("kais-knowledge: the disk went away; look for it\n")


def test_who_is_slow_to_send_is_heard_out_and_answered(tmp_path: Path) -> None:
    old_file(tmp_path / "knowledge.db")
    with serving(tmp_path / "knowledge.db", SLOW.format(pause=3600)) as service:
        url = httpx.URL(service.url)
        with socket.create_connection((url.host, url.port or 0)) as client:
            client.sendall(
                b"POST /v1/facts:batch HTTP/1.1\r\nHost: x\r\nContent-Length: 3000\r\n\r\n"
            )
            for _ in range(3):
                client.sendall(bytes(1000))
                time.sleep(0.2)
            response = client.makefile("rb").read()
    assert response.startswith(b"HTTP/1.1 503 ")
    assert b"store-unavailable" in response


def _until_ready(client: httpx.Client) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            if client.get("/readyz").status_code == 200:
                return
        except httpx.TransportError:
            pass  # between the one that waits and the service
        time.sleep(0.1)
    raise AssertionError("the service never became ready")
