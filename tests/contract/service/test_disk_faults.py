"""A disk that is full, read-only or failing: clear words, reads that go on, and a way back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import httpx
import pytest

from knowledge_service.asgi_app import create_app
from knowledge_service.authentication.disabled import NoAuthentication
from knowledge_service.store.sqlite.db import connection
from knowledge_service.store.sqlite.maintenance import offline_rebuild
from knowledge_service.store.sqlite.store import SqliteStore
from tests import faulty_filesystem

NAME = "knowledge.db"
FACT = {"content": "the build needs Java 21", "scope": "realm:demo"}
EXTRA_FACT = {"content": "the cluster has two nodes", "scope": "realm:demo"}
PASSING = {
    "no space left": faulty_filesystem.error(apsw.FullError, "database or disk is full"),
    "remounted read-only": faulty_filesystem.error(
        apsw.IOError, "disk I/O error", apsw.SQLITE_IOERR_WRITE
    ),
    "said to be read-only": faulty_filesystem.error(
        apsw.ReadOnlyError, "attempt to write a readonly database"
    ),
}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[faulty_filesystem.Disk]:
    with faulty_filesystem.mounted(faulty_filesystem.Disk(tmp_path / "disk")) as disk:
        yield disk


def client_of(store: SqliteStore) -> httpx.AsyncClient:
    app = create_app(store, NoAuthentication())
    app.state.services.readiness.fresh_s = 0.0  # each test sees what it has just done
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service")


@pytest.fixture
def http(disk: faulty_filesystem.Disk) -> Iterator[httpx.AsyncClient]:
    """Serve from the disk; when the disk is well again, the file is whole."""
    store = SqliteStore(disk.folder / NAME)
    yield client_of(store)
    disk.fault = {}
    store.close()
    assert offline_rebuild.verify(disk.folder / NAME).problems == ()


async def assert_reads_go_on(http: httpx.AsyncClient, fact_id: str) -> None:
    recalled = (await http.post("/v1/recall", json={"query": "Java"})).json()
    assert [fact["id"] for fact in recalled["facts"]] == [fact_id]
    assert recalled["receipt"] is None
    assert (await http.get(f"/v1/facts/{fact_id}")).json()["content"] == FACT["content"]
    assert len((await http.get("/v1/facts")).json()["facts"]) == 1


def assert_refused(answer: httpx.Response, text: str) -> None:
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "2"
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["code"] == "store-unavailable"
    assert text in problem["detail"]


@pytest.mark.parametrize("case", PASSING)
async def test_writes_wait_for_the_disk_and_come_back_by_themselves(
    http: httpx.AsyncClient, disk: faulty_filesystem.Disk, case: str
) -> None:
    fact_id = (await http.post("/v1/facts", json=FACT)).json()["fact_id"]
    disk.fault = {"write": PASSING[case]}
    for _ in range(2):
        assert_refused(await http.post("/v1/facts", json=EXTRA_FACT), str(PASSING[case]))
    await assert_reads_go_on(http, fact_id)
    assert (await http.get("/readyz")).status_code == 503
    assert (await http.get("/healthz")).status_code == 200, "a restart would not help"

    disk.fault = {}
    assert (await http.get("/readyz")).status_code == 200
    assert (await http.post("/v1/facts", json=EXTRA_FACT)).status_code == 201
    assert (await http.post("/v1/recall", json={"query": "Java"})).json()["receipt"]


async def test_full_disk_on_which_a_small_write_still_fits_is_not_taken_for_one_with_room(
    http: httpx.AsyncClient, disk: faulty_filesystem.Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await http.post("/v1/facts", json=FACT)
    disk.fault = {"write": PASSING["no space left"]}
    assert_refused(await http.post("/v1/facts", json=EXTRA_FACT), "database or disk is full")
    # What was taken back left its room in the log: enough for a page, not for a fact.
    disk.fault = {}
    monkeypatch.setattr(connection.File, "free_bytes", lambda _: 512 * 1024)
    for _ in range(2):
        ready = await http.get("/readyz")
        assert ready.status_code == 503
        assert "database or disk is full" in ready.json()["detail"]
    monkeypatch.undo()
    assert (await http.get("/readyz")).status_code == 200


async def test_failed_fsync_is_never_tried_again_and_a_restart_brings_the_service_back(
    disk: faulty_filesystem.Disk,
) -> None:
    store = SqliteStore(disk.folder / NAME)
    async with client_of(store) as http:
        fact_id = (await http.post("/v1/facts", json=FACT)).json()["fact_id"]
        disk.fault = {
            "sync": faulty_filesystem.error(apsw.IOError, "disk I/O error", apsw.SQLITE_IOERR_FSYNC)
        }
        message = "a commit failed (disk I/O error); restart the service after the disk is repaired"
        assert_refused(await http.post("/v1/facts", json=EXTRA_FACT), message)
        disk.fault = {}
        assert_refused(await http.post("/v1/facts", json=EXTRA_FACT), message)
        await assert_reads_go_on(http, fact_id)
        alive = await http.get("/healthz")
        assert alive.status_code == 503, "so that the kubelet restarts it"
        assert alive.json()["detail"] == message
    store.close()

    store = SqliteStore(disk.folder / NAME)
    async with client_of(store) as http:
        assert (await http.get("/healthz")).status_code == 200
        assert (await http.post("/v1/facts", json=EXTRA_FACT)).status_code in {200, 201}
        assert len((await http.get("/v1/facts")).json()["facts"]) == 2
    store.close()
    assert offline_rebuild.verify(disk.folder / NAME).problems == ()


async def test_recall_of_a_run_works_while_its_receipt_cannot_be_kept(
    http: httpx.AsyncClient, disk: faulty_filesystem.Disk
) -> None:
    await http.post("/v1/facts", json=FACT)
    run = {"namespace": "demo", "scope": "realm:demo", "blueprint": "review"}
    assert (await http.put("/v1/runs/run-1", json=run)).status_code == 200
    disk.fault = {"write": PASSING["no space left"]}
    answer = await http.post("/v1/recall", json={"query": "Java", "run": "run-1"})
    assert answer.status_code == 200
    assert answer.json()["receipt"] is None
    assert [fact["content"] for fact in answer.json()["facts"]] == [FACT["content"]]
