"""No body makes the others wait: bounds come before gates, and gates stay off the event loop."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx
import pytest

from knowledge_client.models import FactIn
from tests.contract.service.callers import OPERATOR, Connect
from tests.knowledge_builders import LEAD, TEAM, run_in

# Each of these is dear to one of the gates: words that begin a rule, words that begin a secret.
ORDERS, SECRETS, MARKS = "drop all ", "a-", "\u0315\u0316"
_LONGEST_WAIT_S = 0.3


def filled(part: str, size: int) -> str:
    return part * (size // len(part)) + " password rules"


async def slowest_turn(event: asyncio.Event) -> float:
    """Return the most processor time between two turns of the event loop until the event is set.

    What other programs do on the machine does not count. A gate in another thread that keeps the
    interpreter's lock does.
    """
    longest, last = 0.0, time.process_time()
    while not event.is_set():
        await asyncio.sleep(0)
        now = time.process_time()
        longest, last = max(longest, now - last), now
    return longest


async def waited(http: httpx.AsyncClient, path: str, body: Any) -> tuple[httpx.Response, float]:
    """Post a body; return the response and the longest pause of other callers."""
    event = asyncio.Event()
    watching = asyncio.create_task(slowest_turn(event))
    answer = await http.post(path, json=body, headers=OPERATOR)
    event.set()
    return answer, await watching


@pytest.mark.parametrize("part", [ORDERS, SECRETS, MARKS])
@pytest.mark.parametrize("size", [900_000, 2_000_000])
async def test_data_beyond_its_bound_is_refused_before_a_gate_reads_it(
    http: httpx.AsyncClient, part: str, size: int
) -> None:
    started = time.thread_time()
    body = {"content": "x", "data": {"a": filled(part, size // len(part.encode()))}}
    answer, longest = await waited(http, "/v1/facts", body)
    assert answer.status_code == 413
    assert (
        "bytes; the maximum is 65536" in answer.text
        or "the body exceeds 1048576 bytes" in answer.text
    )
    assert longest < _LONGEST_WAIT_S
    assert time.thread_time() - started < 1


@pytest.mark.parametrize("part", [ORDERS, SECRETS, MARKS])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/facts", lambda text: {"content": text[:8192], "data": {"a": text}}),
        ("/v1/facts", lambda text: {"content": "x", "data": {"a": [text[:30000], text[:30000]]}}),
        (
            "/v1/facts:batch",
            lambda text: {
                "facts": [{"content": f"{n}{text[:8000]}", "tags": [text[:64]]} for n in range(60)]
            },
        ),
        ("/v1/facts:batch", lambda text: {"facts": [{"content": "x", "data": {"a": text}}] * 20}),
        ("/remember", lambda text: {"content": text[:8192]}),
        ("/v1/recall", lambda text: {"query": text[:8192]}),
        (
            "/v1/episodes",
            lambda text: {
                "run_id": "r",
                "episodes": [
                    {"type": "message", "content": f"{n}{text[:8000]}"} for n in range(60)
                ],
            },
        ),
    ],
    ids=["fact", "list", "batch", "batch of data", "reference", "recall", "episodes"],
)
async def test_nobody_waits_while_a_gate_reads(
    connect: Connect, http: httpx.AsyncClient, part: str, path: str, body: Any
) -> None:
    await connect("operator").put_run("r", run_in())
    answer, longest = await waited(http, path, body(filled(part, 60_000 // len(part.encode()))))
    assert answer.status_code < 300, answer.text
    assert longest < _LONGEST_WAIT_S


@pytest.mark.parametrize("part", [ORDERS, SECRETS, MARKS])
async def test_nobody_waits_while_a_verb_makes_a_fact_of_another(
    connect: Connect, http: httpx.AsyncClient, part: str
) -> None:
    data = {"a": filled(part, 60_000 // len(part.encode()))}
    stored = await connect("operator").remember(FactIn(content="x", scope=TEAM, data=data))
    text = filled(part, 8000 // len(part.encode()))
    answer, longest = await waited(
        http, f"/v1/facts/{stored.fact_id}:correct", {"reason": text[:2000], "replacement": text}
    )
    assert (answer.status_code, longest < _LONGEST_WAIT_S) == (200, True)
    new = answer.json()["replacement_id"]
    edits = {"reason": "read", "content": f"{text}!"}
    answer, longest = await waited(http, f"/v1/facts/{new}:approve", edits)
    assert (answer.status_code, longest < _LONGEST_WAIT_S) == (200, True)


async def test_parameters_of_a_run_are_bounded(http: httpx.AsyncClient) -> None:
    body = {"namespace": "demo", "scope": TEAM, "parameters": {"a": filled(ORDERS, 300_000)}}
    answer = await http.put("/v1/runs/r", json=body, headers=OPERATOR)
    assert answer.status_code == 413
    assert answer.json()["detail"].startswith("parameters have 300")
    assert "the maximum is 262144; omit values" in answer.json()["detail"]


async def test_body_of_one_thing_is_bounded_by_what_it_may_hold(http: httpx.AsyncClient) -> None:
    text = '{"content": "x"' + " " * (1024 * 1024) + "}"
    headers = {**OPERATOR, "Content-Type": "application/json"}
    for path in ("/v1/facts", "/remember", "/v1/facts/f:correct", "/v1/recall"):
        answer = await http.post(path, content=text, headers=headers)
        assert answer.status_code == 413, path
        assert answer.json()["detail"] == "the body exceeds 1048576 bytes"
    batch = '{"facts": [{"content": "x"}]' + " " * (1024 * 1024) + "}"
    assert (await http.post("/v1/facts:batch", content=batch, headers=headers)).is_success


async def test_counters_of_a_run_are_bounded_in_number_and_length(http: httpx.AsyncClient) -> None:
    async def put(counters: dict[str, int]) -> httpx.Response:
        body = {"kind": "session", "namespace": "demo", "scope": LEAD, "counters": counters}
        return await http.put("/v1/runs/r", json=body, headers={"Authorization": "Bearer lead"})

    assert (await put({f"a{n}": n for n in range(64)})).status_code == 200
    assert (await put({"a1": 7})).json()["counters"]["a1"] == 7
    answer = await put({"b": 1})
    assert answer.status_code == 422
    assert answer.json()["detail"] == "run r would have 65 counters, at most 64"
    answer = await put({"c" * 65: 1})
    assert answer.status_code == 422
    assert answer.json()["detail"] == "the name of a counter has 65 characters, at most 64"
