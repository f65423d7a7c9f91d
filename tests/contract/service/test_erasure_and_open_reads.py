"""No erased text leaves the service after the erasure was acknowledged."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from knowledge_service.ports import Store
from tests.knowledge_builders import ALL, TEAM

HEADERS = {"Authorization": "Bearer operator"}
LIMIT_S = 60.0


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


READS = {
    "recall": ("search", "POST", "/v1/recall", {"query": "harbour"}),
    "list": ("list_facts", "GET", f"/v1/facts?scope={TEAM}", None),
}


@pytest.mark.parametrize("read", READS)
async def test_erasure_is_acknowledged_after_the_responses_that_contain_the_text(
    http: httpx.AsyncClient, store: Store, monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    method, verb, path, query = READS[read]
    fact = {"content": "the ship is in the harbour", "scope": TEAM}
    remembered = await http.post("/v1/facts", json=fact, headers=HEADERS)
    fact_id = remembered.json()["fact_id"]
    gate = Gate(getattr(store, method))
    monkeypatch.setattr(store, method, gate)
    order: list[str] = []

    async def send(name: str, verb: str, path: str, body: Any) -> httpx.Response:
        answer = await http.request(verb, path, json=body, headers=HEADERS)
        order.append(name)
        return answer

    reading = asyncio.create_task(send("read", verb, path, query))
    assert await asyncio.to_thread(gate.has_read.wait, LIMIT_S)
    erasing = asyncio.create_task(
        send("erasure", "POST", f"/v1/facts/{fact_id}:erase", {"reason": "asked for"})
    )
    await asyncio.to_thread(wait_until_erased, store, fact_id)
    await asyncio.wait({erasing}, timeout=0.5)  # long enough for an erasure that does not wait
    gate.opened.set()
    assert (await reading).json()["facts"][0]["content"] == fact["content"]
    assert (await erasing).status_code == 200
    assert order == ["read", "erasure"]
