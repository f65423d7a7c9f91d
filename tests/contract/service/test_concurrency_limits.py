"""One caller's calls never take what others need: threads, readers, places in a queue."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from knowledge_service.asgi_app import create_app
from knowledge_service.domain.principals import Principal
from knowledge_service.ports import Listing, Store
from tests.contract.service.callers import CALLERS
from tests.fakes.identity import NamedCallers
from tests.knowledge_builders import LEAD, OTHER

AS_LEAD = {"Authorization": "Bearer lead"}
WITHIN_S = 5
CELLS = {f"cell-{n}": Principal(f"o/{n}", "agent", f"{OTHER}/cell:c{n}") for n in range(70)}


class SlowLists:
    """A store whose lists last until `go_on` for some homes; `begun` counts those that run."""

    def __init__(self, store: Store, home: str) -> None:
        self._store = store
        self._home = home
        self.go_on = threading.Event()
        self.begun = threading.Semaphore(0)

    def list_facts(self, listing: Listing) -> Any:
        if listing.view.home.startswith(self._home):
            self.begun.release()
            assert self.go_on.wait(60)
        return self._store.list_facts(listing)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class Crowd:
    """Many calls that wait for slow lists, and a client for everybody else."""

    def __init__(self, store: Store, home: str) -> None:
        self.slow: Any = SlowLists(store, home)
        app = create_app(self.slow, NamedCallers({**CALLERS, **CELLS}))
        transport = httpx.ASGITransport(app)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://service")
        self.calls: list[asyncio.Task[httpx.Response]] = []

    async def list_as(self, *names: str) -> None:
        """Begin one list as each of these callers, and wait until one of them runs."""
        for name in names:
            headers = {"Authorization": f"Bearer {name}"}
            self.calls.append(asyncio.create_task(self.http.get("/v1/facts", headers=headers)))
        await asyncio.to_thread(self.slow.begun.acquire, timeout=WITHIN_S)
        for _ in range(20):  # let every call come as far as it may
            await asyncio.sleep(0)

    async def end(self) -> list[httpx.Response]:
        """Let the lists go on; return all their answers."""
        self.slow.go_on.set()
        return await asyncio.gather(*self.calls)


@pytest.fixture
async def crowd(store: Store) -> AsyncIterator[Crowd]:
    crowd = Crowd(store, LEAD)
    yield crowd
    await crowd.end()


@pytest.fixture
async def realm(store: Store) -> AsyncIterator[Crowd]:
    crowd = Crowd(store, OTHER)
    yield crowd
    await crowd.end()


REQUESTS = [
    ("GET", "/readyz", None),
    ("GET", "/healthz", None),
    ("GET", "/v1/whoami", None),
    ("GET", "/v1/facts", None),
    ("GET", "/v1/runs", None),
    ("POST", "/v1/recall", {"query": "rain"}),
    ("POST", "/v1/facts", {"content": "rain"}),
    ("POST", "/v1/facts:batch", {"facts": [{"content": "rain"}]}),
    ("PUT", "/v1/principals", {}),
]


@pytest.mark.parametrize(("method", "path", "body"), REQUESTS, ids=str)
async def test_sixty_slow_lists_of_one_caller_keep_nobody_else_waiting(
    crowd: Crowd, method: str, path: str, body: object
) -> None:
    await crowd.list_as(*["lead"] * 60)
    async with asyncio.timeout(WITHIN_S):
        headers = {"Authorization": "Bearer peer"}
        answer = await crowd.http.request(method, path, json=body, headers=headers)
    assert answer.status_code in (200, 201, 403, 422), answer.text
    assert not any(call.done() for call in crowd.calls)


async def test_slow_lists_of_all_cells_of_a_realm_keep_no_other_realm_waiting(
    realm: Crowd,
) -> None:
    await realm.list_as(*CELLS)
    async with asyncio.timeout(WITHIN_S):
        answer = await realm.http.get("/v1/facts", headers=AS_LEAD)
    assert answer.status_code == 200


async def test_caller_with_too_many_calls_under_way_is_refused_and_told_to_wait(
    crowd: Crowd,
) -> None:
    await crowd.list_as(*["lead"] * 64)
    for method, path, body in (*REQUESTS[3:5], *REQUESTS[5:8]):
        answer = await crowd.http.request(method, path, json=body, headers=AS_LEAD)
        assert answer.status_code == 429, path
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["retry-after"] == "1"
        assert answer.json()["code"] == "quota-exceeded"
        assert answer.json()["detail"] == (
            "demo/lead-0 has 64 concurrent calls, its maximum; wait for answers before sending more"
        )
    answers = await crowd.end()
    assert {answer.status_code for answer in answers} == {200}
    assert (await crowd.http.get("/v1/facts", headers=AS_LEAD)).status_code == 200


async def test_bodies_under_way_are_bounded_by_caller(crowd: Crowd) -> None:
    event, ended = asyncio.Event(), asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield b"{"
        event.set()
        await ended.wait()

    size = str(8 * 1024 * 1024)
    headers = {**AS_LEAD, "content-type": "application/json", "content-length": size}

    def send() -> asyncio.Task[httpx.Response]:
        sending = crowd.http.post("/v1/facts:batch", content=endless(), headers=headers)
        return asyncio.create_task(sending)

    sent = [send(), send()]
    async with asyncio.timeout(WITHIN_S):
        await event.wait()
        refusal = await send()
    assert refusal.status_code == 429
    assert refusal.headers["retry-after"] == "1"
    assert refusal.json()["detail"] == (
        "demo/lead-0 may send at most 16777216 bytes at a time;"
        " wait for answers before sending more"
    )
    body = {"content": "rain"}
    peer = {"Authorization": "Bearer peer"}
    assert (await crowd.http.post("/v1/facts", json=body, headers=peer)).status_code == 201
    ended.set()
    await asyncio.gather(*sent)
    assert (await crowd.http.post("/v1/facts", json=body, headers=AS_LEAD)).status_code == 201


async def test_call_whose_caller_hung_up_frees_its_place(crowd: Crowd) -> None:
    await crowd.list_as(*["lead"] * 64)
    for call in crowd.calls[1:]:
        call.cancel()
    await asyncio.wait(crowd.calls[1:])
    del crowd.calls[1:]
    body = {"content": "rain"}
    answer = await crowd.http.post("/v1/facts", json=body, headers=AS_LEAD)
    assert answer.status_code == 201


async def test_body_that_comes_slowly_holds_no_slot(crowd: Crowd) -> None:
    ended = asyncio.Event()

    async def slow_body() -> AsyncIterator[bytes]:
        yield b'{"kind": '
        await ended.wait()
        yield b'"mission"}'

    kind = {"Authorization": "Bearer keeper", "content-type": "application/json"}
    headers = {**kind, "content-length": "19"}
    sending = [
        asyncio.create_task(crowd.http.put(f"/v1/runs/r{n}", content=slow_body(), headers=headers))
        for n in range(20)
    ]
    for _ in range(20):
        await asyncio.sleep(0)
    async with asyncio.timeout(WITHIN_S):
        answer = await crowd.http.put("/v1/runs/r", json={}, headers=kind)
    assert answer.status_code == 422
    ended.set()
    await asyncio.gather(*sending)
