"""Reads end: what takes too long is refused in words, and holds nobody else up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from knowledge_client import errors, responses
from knowledge_client.error_codes import ErrorCode
from knowledge_client.requests import list_facts
from knowledge_service.asgi_app import create_app
from knowledge_service.authentication.disabled import NoAuthentication
from knowledge_service.errors import ReadTimeout, StoreUnavailable
from knowledge_service.ports.queries import Listing
from knowledge_service.store.sqlite.db import read_pool, write_queue
from knowledge_service.store.sqlite.repositories import fact_listings
from knowledge_service.store.sqlite.store import SqliteStore
from tests.knowledge_builders import ALL
from tests.writer_gate import held_writer

ENDLESS = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i > 0)"
    " SELECT count(*) AS id FROM n"
)


def endless(listing: object) -> str:
    """Return the statement of any list: one that never ends."""
    return ENDLESS


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "knowledge.db", reads_within=timedelta(seconds=0.5))
    yield store
    store.close()


@pytest.fixture
def http(store: SqliteStore) -> httpx.AsyncClient:
    app = create_app(store, NoAuthentication())
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service")


async def test_list_that_takes_too_long_says_so_and_what_to_do(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fact_listings, "_statement", endless)
    answer = await http.get("/v1/facts")
    assert answer.status_code == 504
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "took-too-long"
    assert answer.json()["detail"] == (
        "the read took longer than 0.5 s; request less: fewer scopes, a kind, a tag,"
        " a smaller limit"
    )
    assert "Retry-After" not in answer.headers, "the same question takes as long again"
    with pytest.raises(errors.ReadTimeout, match="request less") as caught:
        responses.parse(list_facts(), 504, dict(answer.headers), answer.content)
    assert caught.value.code == ErrorCode.TOOK_TOO_LONG


async def test_more_such_lists_than_readers_end_and_recalls_go_on(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    response = await http.post("/v1/facts", json={"content": "the build needs Java 21"})
    statement = fact_listings._statement
    monkeypatch.setattr(fact_listings, "_statement", endless)
    answers = await asyncio.gather(*(http.get("/v1/facts") for _ in range(9)))
    assert {answer.status_code for answer in answers} <= {503, 504}
    monkeypatch.setattr(fact_listings, "_statement", statement)
    recalled = await http.post("/v1/recall", json={"query": "Java"})
    assert [fact["id"] for fact in recalled.json()["facts"]] == [response.json()["fact_id"]]
    assert len((await http.get("/v1/facts")).json()["facts"]) == 1


async def test_lists_that_take_long_leave_readers_to_recalls_and_to_who_asks_for_one_fact(
    http: httpx.AsyncClient, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    response = await http.post("/v1/facts", json={"content": "the build needs Java 21"})
    release, started = threading.Event(), threading.Semaphore(0)
    statement = fact_listings._statement

    def held(listing: Listing) -> str:
        """Hold the reader of a list until the event is set."""
        started.release()
        release.wait(60)
        return statement(listing)

    monkeypatch.setattr(fact_listings, "_statement", held)
    # Without the service, whose slots for lists are as few.
    with ThreadPoolExecutor(read_pool.READERS) as threads:
        lists = [threads.submit(store.list_facts, Listing(ALL, 9)) for _ in range(9)]
        try:
            for _ in range(read_pool._BULK_READERS):
                assert await asyncio.to_thread(started.acquire, timeout=60)
            # A read that finds no reader is refused after 0.5 s.
            recalled = await http.post("/v1/recall", json={"query": "Java"})
            assert [fact["id"] for fact in recalled.json()["facts"]] == [response.json()["fact_id"]]
            assert (await http.get(f"/v1/facts/{response.json()['fact_id']}")).status_code == 200
            assert not all(each.done() for each in lists), "some lists still hold their reader"
        finally:
            release.set()
    problems = {type(each.exception()) for each in lists}
    assert problems <= {type(None), StoreUnavailable, ReadTimeout}


async def test_caller_who_finds_every_reader_busy_is_not_kept_waiting(
    http: httpx.AsyncClient, store: SqliteStore
) -> None:
    with ExitStack() as held:
        for _ in range(read_pool.READERS):
            held.enter_context(store._readers.snapshot())
        answer = await http.get("/v1/facts")
        assert answer.status_code == 503
        assert answer.headers["Retry-After"] == "2"
        assert answer.json()["detail"] == "every reader has been busy for 0.5 s; try again"
    assert (await http.get("/v1/facts")).status_code == 200


@pytest.fixture
def hung(store: SqliteStore) -> Iterator[None]:
    """Let the disk hang: a commit does not come to its end."""
    with held_writer(store):
        yield


@pytest.mark.usefixtures("hung")
def test_write_that_the_disk_does_not_take_is_not_waited_for_without_end(
    store: SqliteStore,
) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        store._writer.submit(lambda _: None, patience_s=0.2)
    assert caught.value.detail == (
        "no commit for 0.2 s: the disk is slow or hangs, or a large write is under way; what"
        " was sent may still be stored, so repeat it with the same Idempotency-Key"
    )


@pytest.mark.usefixtures("hung")
async def test_service_whose_disk_hangs_is_not_ready_and_says_why_before_the_probe_gives_up(
    http: httpx.AsyncClient,
) -> None:
    ready = await http.get("/readyz")
    assert ready.status_code == 503
    assert ready.json()["detail"].startswith("no commit for 3 s: the disk is slow or hangs")
    assert (await http.get("/healthz")).status_code == 200, "a restart mends no disk"
    assert (await http.get("/v1/facts")).status_code == 200, "reads go on"


@pytest.mark.usefixtures("hung")
async def test_writes_beyond_the_queue_are_refused_and_others_are_stored_later(
    http: httpx.AsyncClient, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_queue, "_MAX_QUEUED", 3)
    waiting: list[asyncio.Task[httpx.Response]] = []
    async with asyncio.timeout(60):
        while store._writer._queue.qsize() < 3:
            body = {"content": f"rain {len(waiting)}"}
            waiting.append(asyncio.create_task(http.post("/v1/facts", json=body)))
            await asyncio.sleep(0)
    for path, body in (("facts", {"content": "x"}), ("facts:batch", BATCH)):
        answer = await asyncio.wait_for(http.post(f"/v1/{path}", json=body), 60)
        assert answer.status_code == 503
        assert answer.headers["Retry-After"] == "2"
        assert answer.json()["detail"] == (
            "3 writes are queued; this one was not stored, try again later"
        )
    for task in waiting:
        task.cancel()


BATCH = {"facts": [{"content": f"rain {n}"} for n in range(40)]}
KEYED = {"facts": [{"content": "rain", "subject": "sky", "predicate": "does"}]}


@pytest.mark.usefixtures("hung")
@pytest.mark.parametrize("batch", [BATCH, KEYED])
async def test_recalls_go_on_while_batches_wait_for_a_disk_that_hangs(
    http: httpx.AsyncClient, batch: dict[str, object]
) -> None:
    waiting = [asyncio.create_task(http.post("/v1/facts:batch", json=batch)) for _ in range(6)]
    await asyncio.sleep(0.5)
    answer = await asyncio.wait_for(http.post("/v1/recall", json={"query": "rain"}), 60)
    assert answer.status_code == 200
    for task in waiting:
        assert not task.done()
        task.cancel()


@pytest.mark.usefixtures("hung")
@pytest.mark.parametrize(("path", "body"), [("facts", {"content": "x"}), ("facts:batch", BATCH)])
async def test_fact_that_the_disk_does_not_take_is_refused_in_words(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, object]
) -> None:
    monkeypatch.setattr(write_queue, "_COMMIT_TIMEOUT_S", 0.2)
    answer = await asyncio.wait_for(http.post(f"/v1/{path}", json=body), 60)
    assert answer.status_code == 503
    assert answer.json()["detail"].startswith("no commit for 0.2 s: the disk is slow or hangs")
