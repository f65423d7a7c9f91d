"""No erased text leaves the service after the erasure was acknowledged."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import httpx
import pytest

from knowledge_service.ports import Store
from knowledge_service.use_cases import concurrency_limits, services
from tests.contract.service.mcp_service import called, serving
from tests.knowledge_builders import ALL, TEAM

T = TypeVar("T")
HEADERS = {"Authorization": "Bearer operator"}
LIMIT_S = 60.0
# A write gives up after 8 s without a slot.
NO_WAIT_S = 5.0
WRITE_SLOTS = concurrency_limits.SLOTS["writes"]


class Gate:
    """Holds the first call of a method between its return and its caller."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self.has_read = threading.Event()
        self.opened = threading.Event()

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        result = self._method(*arguments, **options)
        if not self.has_read.is_set():
            self.has_read.set()
            assert self.opened.wait(LIMIT_S)
        return result


def wait_until_erased(store: Store, fact_id: str) -> None:
    ends_at_s = time.monotonic() + LIMIT_S
    while store.fact(fact_id, ALL) is not None:
        assert time.monotonic() < ends_at_s
        time.sleep(0.01)


# The method of the store that returns the text, and the request.
REQUESTS = {
    "recall": ("search", "POST", "/v1/recall", {"query": "harbour"}),
    "list": ("list_facts", "GET", f"/v1/facts?scope={TEAM}", None),
    "confirmation": ("confirm", "POST", "/v1/facts/{id}:confirm", {}),
}


@pytest.mark.parametrize("request_name", REQUESTS)
async def test_erasure_is_acknowledged_after_the_responses_that_contain_the_text(
    http: httpx.AsyncClient, store: Store, monkeypatch: pytest.MonkeyPatch, request_name: str
) -> None:
    method, verb, path, body = REQUESTS[request_name]
    fact_id = await remembered(http, "the ship is in the harbour")
    gate = Gate(getattr(store, method))
    monkeypatch.setattr(store, method, gate)
    order: list[str] = []
    url = path.format(id=fact_id)
    reading = start(order, "read", http.request(verb, url, json=body, headers=HEADERS))
    assert await asyncio.to_thread(gate.has_read.wait, LIMIT_S)
    erasing = start(order, "erasure", erase(http, fact_id))
    await asyncio.to_thread(wait_until_erased, store, fact_id)
    await asyncio.wait({erasing}, timeout=0.5)  # long enough for an erasure that does not wait
    gate.opened.set()
    assert "the ship is in the harbour" in (await reading).text
    assert (await erasing).status_code == 200
    assert order == ["read", "erasure"]


@pytest.mark.parametrize(("tool", "method"), [("recall", "search"), ("confirm", "confirm")])
async def test_erasure_is_acknowledged_after_the_responses_of_the_mcp_endpoint(
    store: Store, monkeypatch: pytest.MonkeyPatch, tool: str, method: str
) -> None:
    async with serving(store) as service, service.mcp("lead") as lead:
        stored = await called(lead, "remember", content="the ship is in the harbour")
        fact_id = stored["fact_id"]
        gate = Gate(getattr(store, method))
        monkeypatch.setattr(store, method, gate)
        order: list[str] = []
        arguments = {"query": "harbour"} if tool == "recall" else {"fact_id": fact_id}
        reading = start(order, "read", called(lead, tool, **arguments))
        assert await asyncio.to_thread(gate.has_read.wait, LIMIT_S)
        erasing = start(order, "erasure", erase(service.http, fact_id))
        await asyncio.to_thread(wait_until_erased, store, fact_id)
        await asyncio.wait({erasing}, timeout=0.5)  # long enough for an erasure that does not wait
        assert order == []
        gate.opened.set()
        assert "the ship is in the harbour" in str(await reading)
        assert (await erasing).status_code == 200


async def test_erasure_that_stops_waiting_for_a_response_is_logged_and_counted(
    http: httpx.AsyncClient,
    store: Store,
    scraped: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(services, "_RESPONSE_S", 0.1)
    fact_id = await remembered(http, "the ship is in the harbour")
    gate = Gate(store.search)
    monkeypatch.setattr(store, "search", gate)
    reading = start([], "read", http.post("/v1/recall", json={"query": "x"}, headers=HEADERS))
    assert await asyncio.to_thread(gate.has_read.wait, LIMIT_S)
    assert (await erase(http, fact_id)).status_code == 200
    gate.opened.set()
    await reading
    (record,) = [record for record in caplog.records if "acknowledged" in record.message]
    assert record.levelname == "WARNING"
    assert record.__dict__["fields"] == {"responses": 1, "waited_s": 0.1}
    assert "kais_knowledge_erasures_with_open_responses_total 1.0" in scraped()


async def test_erasure_that_waits_for_no_response_is_not_counted(
    http: httpx.AsyncClient, scraped: Callable[[], str]
) -> None:
    fact_id = await remembered(http, "the ship is in the harbour")
    assert (await erase(http, fact_id)).status_code == 200
    assert "kais_knowledge_erasures_with_open_responses_total 0.0" in scraped()


async def test_erasures_that_wait_for_a_read_leave_the_slots_to_other_writes(
    http: httpx.AsyncClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fact_ids = [await remembered(http, f"ship {n} is in the harbour") for n in range(WRITE_SLOTS)]
    other_id = await remembered(http, "the train is late")
    gate = Gate(store.list_facts)
    monkeypatch.setattr(store, "list_facts", gate)
    order: list[str] = []
    reading = start(order, "read", http.get(f"/v1/facts?scope={TEAM}", headers=HEADERS))
    assert await asyncio.to_thread(gate.has_read.wait, LIMIT_S)
    erasing = [start(order, "erasure", erase(http, fact_id)) for fact_id in fact_ids]
    for fact_id in fact_ids:
        await asyncio.to_thread(wait_until_erased, store, fact_id)
    confirming = start(
        order, "write", http.post(f"/v1/facts/{other_id}:confirm", json={}, headers=HEADERS)
    )
    await asyncio.wait({confirming}, timeout=NO_WAIT_S)
    gate.opened.set()
    answers = await asyncio.gather(confirming, reading, *erasing)
    assert {answer.status_code for answer in answers} == {200}
    assert order[:2] == ["write", "read"]


async def remembered(http: httpx.AsyncClient, content: str) -> str:
    fact = {"content": content, "scope": TEAM}
    answer = await http.post("/v1/facts", json=fact, headers=HEADERS)
    assert answer.status_code == 201
    return str(answer.json()["fact_id"])


async def erase(http: httpx.AsyncClient, fact_id: str) -> httpx.Response:
    body = {"reason": "asked for"}
    return await http.post(f"/v1/facts/{fact_id}:erase", json=body, headers=HEADERS)


def start(order: list[str], name: str, call: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start a call whose name is appended to `order` when it returns."""

    async def run() -> T:
        result = await call
        order.append(name)
        return result

    return asyncio.create_task(run())
