"""The rest of the interface: scopes, the routes of the reference, health and metrics."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from knowledge_client import errors
from knowledge_client.models import (
    FactIn,
    ScopeConfig,
)
from knowledge_service.ports import Store
from knowledge_service.routes import openapi_errors
from tests.contract.service.callers import OPERATOR, Connect
from tests.fakes.store import MemoryStore
from tests.knowledge_builders import LEAD, TEAM


class TestScopes:
    async def test_undeclared_scope_has_the_defaults(self, connect: Connect) -> None:
        scope_out = await connect("lead").get_scope(TEAM)
        assert (scope_out.declared, scope_out.config) == (False, ScopeConfig())

    async def test_deleted_scope_is_empty(self, connect: Connect) -> None:
        operator = connect("operator")
        await operator.put_scope(TEAM, ScopeConfig(read_only=True))
        assert (await operator.get_scope(TEAM)).declared
        await operator.delete_scope(TEAM)
        assert not (await operator.get_scope(TEAM)).declared
        with pytest.raises(errors.NotFound, match=f"scope {TEAM} does not exist"):
            await operator.delete_scope(TEAM)

    async def test_erased_scope_is_never_adopted(self, connect: Connect) -> None:
        operator = connect("operator")
        await connect("lead").remember(FactIn(content="x"))
        await operator.delete_scope(TEAM, erase=True)
        with pytest.raises(errors.NotFound, match=f"scope {TEAM} has no predecessor to adopt"):
            await operator.adopt_scope(TEAM)

    async def test_lists_what_the_caller_sees(self, connect: Connect) -> None:
        await connect("stranger").remember(FactIn(content="x"))
        page = await connect("lead").list_scopes()
        assert [scope.path for scope in page.scopes] == ["platform", "realm:demo", TEAM, LEAD]


class TestReferenceRoutes:
    async def test_remember_recall_correct(self, http: httpx.AsyncClient) -> None:
        scope = {"level": "formation", "realmId": "demo", "formationId": "team"}
        body = {
            "content": "rain falls up",
            "scope": scope,
            "source": {"type": "mission_extraction", "missionId": "m-1"},
            "graphId": "ignored",
        }
        response = await http.post("/remember", json=body, headers=OPERATOR)
        assert (response.status_code, list(response.json())) == (200, ["factId"])
        question = {"query": "rain", "scope": scope, "maxResults": 5}
        matching_response = await http.post("/recall", json=question, headers=OPERATOR)
        (fact,) = matching_response.json()
        assert (fact["id"], fact["content"]) == (response.json()["factId"], "rain falls up")
        assert fact["source"]["refs"] == [{"type": "mission", "id": "m-1"}]
        assert matching_response.headers["kais-receipt"]
        correction = {"factId": fact["id"], "reason": "down"}
        assert (await http.post("/correct", json=correction, headers=OPERATOR)).json() == {
            "status": "ok"
        }
        assert (await http.post("/recall", json=question, headers=OPERATOR)).json() == []

    async def test_unknown_fact_is_404(self, http: httpx.AsyncClient) -> None:
        body = {"fact_id": "nobody", "reason": "x"}
        answer = await http.post("/correct", json=body, headers=OPERATOR)
        assert (answer.status_code, answer.json()["code"]) == (404, "not-found")

    async def test_named_scope_reads_what_is_above_it_too(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        await connect("ada").remember(FactIn(content="rain", scope="realm:demo"))
        question = {"query": "rain", "scope": {"level": "cell"}}
        headers = {"Authorization": "Bearer lead"}
        assert len((await http.post("/recall", json=question, headers=headers)).json()) == 1


class TestHealth:
    async def test_ready_says_whether_the_store_answers(
        self, http: httpx.AsyncClient, store: Store, caplog: pytest.LogCaptureFixture
    ) -> None:
        assert (await http.get("/readyz")).json()["status"] == "ok"
        if isinstance(store, MemoryStore):
            store.problem = "the disk is gone"
            for route in ("/readyz", "/health"):
                answer = await http.get(route)
                assert answer.status_code == 503
                assert answer.json() == {"status": "unavailable", "detail": "the disk is gone"}
            refused = await http.get("/v1/facts", headers=OPERATOR)
            assert (refused.status_code, refused.json()["code"]) == (503, "store-unavailable")
            assert refused.headers["retry-after"] == "2"
            (record,) = [r for r in caplog.records if r.message == "request refused"]
            assert record.fields["why"] == "the disk is gone"  # type: ignore[attr-defined]
        assert (await http.get("/healthz")).json()["status"] == "ok"

    async def test_metrics_are_labelled_by_route_template(
        self, connect: Connect, scraped: Callable[[], str]
    ) -> None:
        remembered = await connect("lead").remember(FactIn(content="x"))
        await connect("lead").get_fact(remembered.fact_id)
        text = scraped()
        assert 'route="/v1/facts/{fact_id}"' in text
        assert remembered.fact_id not in text

    async def test_interface_describes_itself(self, http: httpx.AsyncClient) -> None:
        paths = (await http.get("/openapi.json")).json()["paths"]
        assert {"/v1/facts", "/v1/recall", "/v1/runs/{run_id}", "/recall"} <= set(paths)

    async def test_all_first_callers_read_the_same_description(
        self, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        described: list[int] = []

        def slowly(document: dict[str, Any]) -> dict[str, Any]:
            described.append(1)
            time.sleep(0.1)  # meanwhile the others ask
            return describe(document)

        describe = openapi_errors.add_error_responses
        monkeypatch.setattr(openapi_errors, "add_error_responses", slowly)
        coroutines = [http.get("/openapi.json") for _ in range(8)]
        answers = await asyncio.gather(*coroutines)
        assert len(described) == 1
        assert {response.status_code for response in answers} == {200}
        (same_content,) = {response.content for response in answers}
        assert b"HTTPValidationError" not in same_content


async def test_openapi_document_says_which_operations_need_a_token(
    http: httpx.AsyncClient,
) -> None:
    document = (await http.get("/openapi.json")).json()
    scheme = document["components"]["securitySchemes"]["token"]
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            url = re.sub(r"\{\w+\}", "x", path)
            is_refused = (await http.request(method, url)).status_code == 401
            assert operation["security"] == ([{"token": []}] if is_refused else []), path
