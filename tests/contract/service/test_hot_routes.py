"""The hot routes against the application: a query without a parameter leads there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from knowledge_client.models import FactIn
from tests.builders_knowledge import TEAM
from tests.contract.service.callers import OPERATOR, Connect

LEAD = {"Authorization": "Bearer lead"}
BODIES: list[tuple[str, Any]] = [
    ("/v1/facts", {"content": "rain", "scope": TEAM}),
    ("/v1/facts", {"content": "rain", "validFrom": "2030-01-01T00:00:00Z", "tags": ["a", "A"]}),
    ("/v1/facts", {"content": ""}),
    ("/v1/facts", {"content": "x", "run": "nobody"}),
    ("/v1/facts", {"content": "x", "scope": "realm:other"}),
    ("/v1/facts", {"content": "x", "kind": "No Kind"}),
    ("/v1/facts", ["x"]),
    ("/v1/facts:batch", {"facts": [{"content": "sun"}, {"content": "sun"}]}),
    ("/v1/facts:batch", {"facts": []}),
    ("/v1/recall", {"query": "rain"}),
    ("/v1/recall", {"query": "rain", "scopes": ["realm:other"]}),
    ("/v1/recall", {"query": "rain", "limit": 0}),
    ("/recall", {"query": "rain", "maxResults": 3}),
    ("/recall", {"query": 1}),
    ("/remember", {"content": "rain", "graphId": "ignored"}),
    ("/remember", {"content": "x" * 9000}),
]


async def answers(http: httpx.AsyncClient, path: str, **sent: Any) -> list[tuple[int, Any]]:
    """Ask the hot route, then the application; ids and times differ from one write to the next."""
    found = []
    for url in (path, path + "?&"):
        answer = await http.post(url, **sent)
        assert answer.headers["content-type"].startswith("application/")
        found.append((answer.status_code, alike(answer.json())))
    return found


def alike(value: Any) -> Any:
    """Leave out what is made anew for each answer."""
    made = {"receipt", "known_at", "factId", "fact_id", "status", "id", "recorded_at", "rank"}
    if isinstance(value, list):
        return [alike(item) for item in value]
    if isinstance(value, dict):
        return {k: "" if k in made else alike(v) for k, v in value.items()}
    return value


@pytest.mark.parametrize(("path", "body"), BODIES)
@pytest.mark.parametrize("headers", [OPERATOR, LEAD, {}])
async def test_answer_is_the_one_of_the_application(
    http: httpx.AsyncClient, path: str, body: Any, headers: dict[str, str]
) -> None:
    hot, own = await answers(http, path, json=body, headers=headers)
    assert hot[1] == own[1]
    # What was just created is confirmed when it comes again.
    assert hot[0] == own[0] or (hot[0], own[0]) == (201, 200)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b'{"content": NaN}',
        b'{"content": "\\ud800"}',
        b"[" * 2000,
        b'{"content": "x", "confidence": Infinity}',
        b"\xff",
    ],
)
async def test_body_that_is_no_json_is_refused_in_the_applications_words(
    http: httpx.AsyncClient, text: bytes
) -> None:
    headers = {**OPERATOR, "content-type": "application/json"}
    hot, own = await answers(http, "/v1/facts", content=text, headers=headers)
    assert hot == own
    assert hot[0] == 422


async def test_body_beyond_the_limit_is_refused_by_name(http: httpx.AsyncClient) -> None:
    body = {"content": "x" * (8 * 1024 * 1024)}
    hot, own = await answers(http, "/v1/facts", json=body, headers=OPERATOR)
    assert hot == own
    assert hot[0] == 413


async def test_body_in_pieces_is_read_whole(http: httpx.AsyncClient) -> None:
    async def pieces() -> Any:
        for piece in (b'{"content": ', b'"in pieces", "scope": ', b'"platform"}'):
            yield piece

    headers = {**OPERATOR, "content-type": "application/json"}
    answer = await http.post("/v1/facts", content=pieces(), headers=headers)
    assert answer.status_code == 201


async def test_key_used_again_with_the_same_body_gives_the_first_answer(
    http: httpx.AsyncClient,
) -> None:
    headers = {**OPERATOR, "Idempotency-Key": "k"}
    body = {"content": "once", "scope": TEAM}
    first = await http.post("/v1/facts", json=body, headers=headers)
    again = await http.post("/v1/facts", json=body, headers=headers)
    other = await http.post("/v1/facts", json={"content": "other"}, headers=headers)
    assert first.json() == again.json()
    assert (other.status_code, other.json()["code"]) == (409, "idempotency-conflict")


async def test_hot_routes_are_counted_by_their_names(
    http: httpx.AsyncClient, scraped: Callable[[], str]
) -> None:
    await http.post("/v1/recall", json={"query": "x"}, headers=OPERATOR)
    text = scraped()
    assert (
        'kais_knowledge_requests_total{method="POST",route="/v1/recall",status="200"} 1.0' in text
    )


async def test_hot_routes_are_described(http: httpx.AsyncClient) -> None:
    paths = (await http.get("/openapi.json")).json()["paths"]
    assert {path for path, _ in BODIES} <= set(paths)


async def test_each_of_many_writers_at_once_finds_its_fact_in_its_next_recall(
    connect: Connect, http: httpx.AsyncClient
) -> None:
    async def write(n: int) -> None:
        for m in range(6):
            word = f"word{n}x{m}"
            told = await connect("lead").remember(FactIn(content=f"this is {word}"))
            answer = await http.post("/v1/recall", json={"query": word}, headers=LEAD)
            assert [fact["id"] for fact in answer.json()["facts"]][:1] == [told.fact_id]

    await asyncio.gather(*(write(n) for n in range(8)))
