"""One way for every route: what a request must be, and the responses that all routes share."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from knowledge_client.models import FactIn
from tests.contract.service.callers import OPERATOR, Connect
from tests.knowledge_builders import TEAM

LEAD = {"Authorization": "Bearer lead"}
ACCEPTED: list[tuple[str, Any]] = [
    ("/v1/facts", {"content": "rain", "scope": TEAM}),
    ("/v1/facts", {"content": "rain", "validFrom": "2030-01-01T00:00:00Z", "tags": ["a", "A"]}),
    ("/v1/facts:batch", {"facts": [{"content": "sun"}, {"content": "sun"}]}),
    ("/v1/recall", {"query": "rain"}),
    ("/recall", {"query": "rain", "maxResults": 3}),
    ("/remember", {"content": "rain", "graphId": "ignored"}),
]
REFUSED: list[tuple[str, Any, str, str]] = [
    ("/v1/facts", {"content": ""}, "content", "at least 1 character"),
    ("/v1/facts", {"content": "x", "kind": "No Kind"}, "kind", "must be"),
    ("/v1/facts", ["x"], "", "valid dictionary"),
    ("/v1/facts", None, "", "Field required"),
    ("/v1/facts:batch", {"facts": []}, "facts", "at least 1 item"),
    ("/v1/recall", {"query": "rain", "limit": 0}, "limit", "greater than or equal to 1"),
    ("/recall", {"query": 1}, "query", "valid string"),
    ("/remember", {"content": "x" * 9000}, "content", "at most 8192 characters"),
    ("/v1/facts?dry_run=perhaps", {"content": "x"}, "query.dry_run", "valid boolean"),
    ("/v1/facts?dry_run=perhaps", {"content": ""}, "content", "at least 1 character"),
]


@pytest.mark.parametrize(("path", "body"), ACCEPTED)
async def test_body_that_fits_is_answered_with_json(
    http: httpx.AsyncClient, path: str, body: Any
) -> None:
    answer = await http.post(path, json=body, headers=OPERATOR)
    assert answer.status_code in (200, 201), answer.text
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(("path", "body"), ACCEPTED)
async def test_request_without_a_token_is_refused_before_its_body_is_read(
    transport: httpx.ASGITransport, path: str, body: Any
) -> None:
    async def unread() -> Any:
        raise AssertionError("the body was read")
        yield b""

    async with httpx.AsyncClient(transport=transport, base_url="http://service") as http:
        answer = await http.post(path, content=unread())
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


@pytest.mark.parametrize(("path", "body", "location", "message"), REFUSED)
async def test_body_that_does_not_fit_is_refused_with_the_place_of_the_mistake(
    http: httpx.AsyncClient, path: str, body: Any, location: str, message: str
) -> None:
    answer = await http.post(path, json=body, headers=OPERATOR)
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, problem["code"]) == (422, "invalid-body")
    result = {violation["path"]: violation["message"] for violation in problem["violations"]}
    assert message in result[location]


async def test_body_that_is_not_sent_as_json_is_refused_with_what_to_do(
    http: httpx.AsyncClient,
) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        headers = {**OPERATOR, "content-type": kind}
        answer = await http.post("/v1/facts", content=b'{"content": "x"}', headers=headers)
        assert answer.status_code == 422
        assert "Content-Type: application/json" in answer.text
    headers = {**OPERATOR, "content-type": "application/merge-patch+json; charset=utf-8"}
    answer = await http.post("/v1/facts", content=b'{"content": "x"}', headers=headers)
    assert answer.status_code == 201


async def test_route_with_another_method_is_refused_with_those_it_has(
    http: httpx.AsyncClient,
) -> None:
    answer = await http.delete("/v1/recall", headers=OPERATOR)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.headers["content-type"] == "application/problem+json"


async def test_parameter_that_does_not_fit_is_refused_by_name(http: httpx.AsyncClient) -> None:
    answer = await http.get("/v1/facts?limit=0&kind=a&lifecycle=dead", headers=OPERATOR)
    assert answer.status_code == 422
    paths = [violation["path"] for violation in answer.json()["violations"]]
    assert paths == ["query.lifecycle", "query.limit"]
    answer = await http.get(f"/v1/runs/{'r' * 200}", headers=OPERATOR)
    assert answer.status_code in (404, 422)


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b'{"content": NaN}',
        b'{"content": "\\ud800"}',
        b"[" * 2000,
        b'{"content": "x", "confidence": Infinity}',
        b"\xff",
    ],
)
async def test_body_that_is_not_json_is_refused(http: httpx.AsyncClient, text: bytes) -> None:
    headers = {**OPERATOR, "content-type": "application/json"}
    answer = await http.post("/v1/facts", content=text, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-body")
    assert "the body is not JSON: " in answer.json()["detail"]


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" + "0" * 309 + ".5"])
@pytest.mark.parametrize(
    ("method", "path", "body", "place"),
    [
        ("PUT", "/v1/runs/r", {"namespace": "demo", "scope": TEAM, "cost": "?"}, "cost"),
        (
            "PUT",
            "/v1/runs/r",
            {"namespace": "demo", "scope": TEAM, "parameters": {"a": [1, {"b": "?"}]}},
            "parameters.a.1.b",
        ),
        ("PUT", "/v1/scopes/realm:demo", {"retention": {"ttl_days": "?"}}, "retention.ttl_days"),
        ("POST", "/v1/links", {"from": "a", "to": "b", "data": {"a": "?"}}, "data.a"),
        ("POST", "/v1/links", {"from": "a", "to": "b", "data": "?"}, "data"),
        ("POST", "/v1/facts:batch", {"facts": [{"content": "x", "data": ["?"]}]}, "facts.0.data.0"),
        ("POST", "/remember", {"content": "x", "confidence": "?"}, "confidence"),
    ],
)
async def test_number_that_no_float_holds_is_refused_by_its_place(
    http: httpx.AsyncClient, method: str, path: str, body: Any, place: str, number: str
) -> None:
    text = json.dumps(body).replace('"?"', number)
    headers = {**OPERATOR, "content-type": "application/json"}
    answer = await http.request(method, path, content=text, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-body")
    assert [violation["path"] for violation in answer.json()["violations"]] == [place]


@pytest.mark.parametrize("text", ["Infinity", "1e400", "NaN"])
@pytest.mark.parametrize(
    ("path", "body", "place"),
    [
        ("/v1/runs/r", {"namespace": "demo", "scope": TEAM, "cost": "?"}, "cost"),
        ("/v1/scopes/realm:demo", {"retention": {"ttl_days": "?"}}, "retention.ttl_days"),
        (
            "/v1/scopes/realm:demo",
            {"retention": {"half_life_days": "?"}},
            "retention.half_life_days",
        ),
    ],
)
async def test_text_that_is_read_as_an_infinite_number_is_refused(
    http: httpx.AsyncClient, path: str, body: Any, place: str, text: str
) -> None:
    sent = json.loads(json.dumps(body).replace("?", text))
    answer = await http.put(path, json=sent, headers=OPERATOR)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-body")
    assert [violation["path"] for violation in answer.json()["violations"]] == [place]


async def test_largest_number_and_texts_of_larger_ones_are_stored(http: httpx.AsyncClient) -> None:
    data = {"a": 1.7976931348623157e308, "b": "1e400", "c": 10**100}
    body = {"content": "1e400 is a number", "data": data}
    answer = await http.post("/v1/facts", json=body, headers=OPERATOR)
    assert answer.status_code == 201, answer.text
    path = f"/v1/facts/{answer.json()['fact_id']}"
    assert (await http.get(path, headers=OPERATOR)).json()["data"] == data


async def test_body_beyond_the_limit_is_refused_by_name(http: httpx.AsyncClient) -> None:
    body = {"content": "x" * (8 * 1024 * 1024)}
    answer = await http.post("/v1/facts", json=body, headers=OPERATOR)
    assert answer.status_code == 413
    assert answer.json()["detail"] == "the body exceeds 1048576 bytes"


async def test_body_of_unknown_length_is_refused_beyond_the_limit(http: httpx.AsyncClient) -> None:
    async def pieces() -> Any:
        for _ in range(40):
            yield b" " * 65536

    headers = {**OPERATOR, "content-type": "application/json"}
    answer = await http.post("/v1/facts", content=pieces(), headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (413, "too-large")


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
    response = await http.post("/v1/facts", json=body, headers=headers)
    other_response = await http.post("/v1/facts", json={"content": "other"}, headers=headers)
    assert first.json() == response.json()
    assert (other_response.status_code, other_response.json()["code"]) == (
        409,
        "idempotency-conflict",
    )


async def test_requests_are_counted_by_their_routes(
    http: httpx.AsyncClient, scraped: Callable[[], str]
) -> None:
    await http.post("/v1/recall", json={"query": "x"}, headers=OPERATOR)
    text = scraped()
    assert (
        'kais_knowledge_requests_total{method="POST",route="/v1/recall",status="200"} 1.0' in text
    )


async def test_each_of_many_writers_at_once_finds_its_fact_in_its_next_recall(
    connect: Connect, http: httpx.AsyncClient
) -> None:
    async def write(n: int) -> None:
        for m in range(6):
            message = f"word{n}x{m}"
            remembered = await connect("lead").remember(FactIn(content=f"this is {message}"))
            answer = await http.post("/v1/recall", json={"query": message}, headers=LEAD)
            assert [fact["id"] for fact in answer.json()["facts"]][:1] == [remembered.fact_id]

    await asyncio.gather(*(write(n) for n in range(8)))
