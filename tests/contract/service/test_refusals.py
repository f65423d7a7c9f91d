"""What is wrong with a request is said with its place, and nothing of ours is told."""

from __future__ import annotations

import base64
from collections.abc import Callable

import httpx
import pytest

from knowledge_client.models import (
    FactIn,
)
from knowledge_service.asgi_app import create_app
from knowledge_service.domain.principals import administrator
from knowledge_service.errors import StoreDamaged, StoreUnavailable
from knowledge_service.ports import Store
from tests.contract.service.callers import OPERATOR, Connect
from tests.fakes.identity import NamedCallers
from tests.knowledge_builders import TEAM, run_in


class TestProblems:
    async def test_every_violation_of_a_body_is_listed(self, http: httpx.AsyncClient) -> None:
        body = {"content": "", "confidence": 2, "tags": "x"}
        answer = await http.post("/v1/facts", json=body, headers=OPERATOR)
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (422, "invalid-body")
        assert {violation["path"] for violation in problem["violations"]} == {
            "content",
            "confidence",
            "tags",
        }

    async def test_scope_that_is_none_is_said_with_the_grammar(
        self, http: httpx.AsyncClient
    ) -> None:
        body = {"content": "x", "scope": "realm:demo/team"}
        answer = await http.post("/v1/facts", json=body, headers=OPERATOR)
        (violation,) = answer.json()["violations"]
        assert violation["path"] == "scope"
        assert "write platform, realm:x, realm:x/formation:y" in violation["message"]

    async def test_sizes_are_bounded_and_named(self, http: httpx.AsyncClient) -> None:
        body = {"content": "x", "data": {"a": "y" * 70_000}}
        answer = await http.post("/v1/facts", json=body, headers=OPERATOR)
        assert (answer.status_code, answer.json()["code"]) == (413, "too-large")
        assert answer.json()["detail"] == "data has 70008 bytes; the maximum is 65536"

    @pytest.mark.parametrize("streamed", [False, True])
    async def test_huge_body_is_refused(self, http: httpx.AsyncClient, streamed: bool) -> None:
        async def chunks():  # type: ignore[no-untyped-def]
            for _ in range(9):
                yield b"x" * 1024 * 1024

        content = chunks() if streamed else b"x" * (9 * 1024 * 1024)
        headers = OPERATOR | {"Content-Type": "application/json"}
        answer = await http.post("/v1/facts", content=content, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (413, "too-large")

    async def test_unknown_route_and_method_are_problems(self, http: httpx.AsyncClient) -> None:
        answer = await http.get("/v2/facts")
        assert (answer.status_code, answer.json()["code"]) == (404, "not-found")
        answer = await http.delete("/v1/facts", headers=OPERATOR)
        assert answer.status_code == 405
        assert answer.headers["content-type"] == "application/problem+json"

    async def test_fault_of_ours_says_nothing_of_itself(
        self, http: httpx.AsyncClient, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> None:
            raise RuntimeError("private")

        monkeypatch.setattr(store, "fact", fail)
        answer = await http.get("/v1/facts/x", headers=OPERATOR)
        assert (answer.status_code, answer.json()["code"]) == (500, "internal")
        assert "private" not in answer.text

    @pytest.mark.parametrize(
        ("failure", "retry_after"), [(StoreUnavailable, "2"), (StoreDamaged, None)]
    )
    async def test_only_what_mends_itself_is_said_to_be_there_again_soon(
        self, http: httpx.AsyncClient, store: Store, monkeypatch: pytest.MonkeyPatch,
        failure: type[StoreUnavailable], retry_after: str | None,
    ) -> None:  # fmt: skip
        def fail(*_: object) -> None:
            raise failure("the disk")

        monkeypatch.setattr(store, "fact", fail)
        answer = await http.get("/v1/facts/x", headers=OPERATOR)
        assert (answer.status_code, answer.json()["code"]) == (503, "store-unavailable")
        assert answer.headers.get("retry-after") == retry_after

    async def test_cursor_that_is_none_of_ours_is_refused(self, http: httpx.AsyncClient) -> None:
        answer = await http.get("/v1/facts?cursor=%ff", headers=OPERATOR)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid-body")


class TestHostileBodies:
    """What no client of ours sends is refused with words, never answered by a fault."""

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            pytest.param(r'{"content":"x","data":{"a":"\ud800"}}', "hex escape", id="surrogate"),
            pytest.param('{"content":"x","data":{"a":NaN}}', "expected value", id="not a number"),
            pytest.param(
                '{"content":"x","data":{"a":1e999}}',
                "a number in the body is too large",
                id="infinite number",
            ),
            pytest.param(
                '{"content":"x","data":' + "[" * 900 + "]" * 900 + "}",
                "recursion limit exceeded",
                id="deep nesting",
            ),
            pytest.param(
                '{"content":"x","position":' + "9" * 30 + "}", "9007199254740992", id="huge number"
            ),
            pytest.param(
                '{"content":"x","valid_from":"0001-01-01T00:00:00+14:00"}',
                "between the years 1 and 9999 in UTC",
                id="time before all years",
            ),
            pytest.param(
                '{"content":"x","tags":["' + "y" * 65 + '"]}', "at most 64", id="long tag"
            ),
            pytest.param(
                '{"content":"x","source":{"type":"user_input","mission_id":"' + "y" * 600 + '"}}',
                "at most 512",
                id="long mission",
            ),
            pytest.param('{"content":', "EOF while parsing", id="half a body"),
        ],
    )
    async def test_body_that_means_nothing_is_refused_with_the_reason(
        self, http: httpx.AsyncClient, body: str, message: str
    ) -> None:
        headers = OPERATOR | {"Content-Type": "application/json"}
        answer = await http.post("/v1/facts", content=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid-body")
        assert message in answer.text

    async def test_times_without_a_zone_are_utc(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        await connect("operator").remember(FactIn(content="rain", scope=TEAM))
        question = {"query": "rain", "known_at": "2999-01-01T00:00:00"}
        answer = await http.post("/v1/recall", json=question, headers=OPERATOR)
        assert len(answer.json()["facts"]) == 1
        times = {"started_at": "2026-01-01T00:00:00", "finished_at": "2026-01-01T00:01:00Z"}
        body = run_in().model_dump(mode="json") | times
        assert (await http.put("/v1/runs/r", json=body, headers=OPERATOR)).status_code == 200

    async def test_number_that_no_store_keeps_is_refused(self, http: httpx.AsyncClient) -> None:
        body = run_in().model_dump(mode="json") | {"revision": 2**70, "tokens": 2**70}
        answer = await http.put("/v1/runs/r", json=body, headers=OPERATOR)
        assert answer.status_code == 422
        assert {v["path"] for v in answer.json()["violations"]} == {"revision", "tokens"}

    @pytest.mark.parametrize("after", ["9" * 30, "9" * 5000, "-1", "\u0663"])
    async def test_forged_cursor_of_a_record_is_refused(
        self, connect: Connect, http: httpx.AsyncClient, after: str
    ) -> None:
        await connect("operator").put_run("r", run_in())
        forged = base64.urlsafe_b64encode(f"1:{after}".encode()).decode()
        answer = await http.get(f"/v1/runs/r/episodes?cursor={forged}", headers=OPERATOR)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid-body")

    async def test_id_of_a_run_is_bounded(self, http: httpx.AsyncClient) -> None:
        body = run_in().model_dump(mode="json")
        answer = await http.put("/v1/runs/" + "x" * 300, json=body, headers=OPERATOR)
        assert answer.status_code == 422
        assert "at most 128" in answer.text

    async def test_fault_of_ours_is_logged_once(
        self, store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail(*_: object) -> None:
            raise RuntimeError("private")

        monkeypatch.setattr(store, "fact", fail)
        callers = NamedCallers({"operator": administrator("operator", "system")})
        # A server logs and cuts the connection when an exception comes through to it.
        transport = httpx.ASGITransport(create_app(store, callers), raise_app_exceptions=True)
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as http:
            assert (await http.get("/v1/facts/x", headers=OPERATOR)).status_code == 500
        assert [r.message for r in caplog.records if r.exc_info] == ["request failed"]

    async def test_made_up_methods_do_not_multiply_the_counters(
        self, http: httpx.AsyncClient, scraped: Callable[[], str]
    ) -> None:
        await http.request("BREW", "/v1/facts", headers=OPERATOR)
        text = scraped()
        assert "BREW" not in text
        assert 'method="other"' in text
