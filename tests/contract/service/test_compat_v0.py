"""The routes of the reference's clients: what they send, and what they get back."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.contract.service.callers import OPERATOR
from tests.knowledge_builders import TEAM


class TestIdempotency:
    # A query without a parameter leads past the hot routes to the application.
    @pytest.mark.parametrize("query", ["", "?&"])
    async def test_repeated_remember_gets_the_first_answer(
        self, http: httpx.AsyncClient, query: str
    ) -> None:
        headers = OPERATOR | {"Idempotency-Key": "k-1"}
        body = {"content": "rain", "scope": {"level": "realm", "realm_id": "demo"}}
        first = await http.post(f"/remember{query}", json=body, headers=headers)
        fact_id = first.json()["factId"]
        closing = {"fact_id": fact_id, "reason": "it is dry"}
        await http.post("/correct", json=closing, headers=OPERATOR)
        response = await http.post(f"/remember{query}", json=body, headers=headers)
        assert (response.status_code, response.json()) == (
            200,
            {"factId": fact_id},
        )

    @pytest.mark.parametrize("query", ["", "?&"])
    async def test_key_of_another_body_is_refused(
        self, http: httpx.AsyncClient, query: str
    ) -> None:
        headers = OPERATOR | {"Idempotency-Key": "k-1"}
        await http.post(f"/remember{query}", json={"content": "rain"}, headers=headers)
        other_response = await http.post(
            f"/remember{query}", json={"content": "snow"}, headers=headers
        )
        assert (other_response.status_code, other_response.json()["code"]) == (
            409,
            "idempotency-conflict",
        )

    async def test_repeated_correct_gets_the_first_answer(self, http: httpx.AsyncClient) -> None:
        response = await http.post("/remember", json={"content": "rain"}, headers=OPERATOR)
        headers = OPERATOR | {"Idempotency-Key": "k-2"}
        body: dict[str, Any] = {"fact_id": response.json()["factId"], "reason": "it is dry"}
        for _ in range(2):
            answer = await http.post("/correct", json=body, headers=headers)
            assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
        second = await http.post("/correct", json=body | {"reason": "no"}, headers=headers)
        assert second.json()["code"] == "idempotency-conflict"
        reply_without = await http.post("/correct", json=body, headers=OPERATOR)
        assert reply_without.status_code == 409


class TestRecalled:
    # A query without a parameter leads past the hot routes to the application.
    @pytest.mark.parametrize("query", ["", "?&"])
    @pytest.mark.parametrize(
        "scope",
        [
            {"level": "platform"},
            {"level": "realm", "realm_id": "demo"},
            {"level": "formation", "realm_id": "demo", "formation_id": "team"},
            {"level": "cell", "realm_id": "demo", "formation_id": "team", "cell_id": "lead-0"},
            {"level": "cell", "realm_id": "demo", "cell_id": "solo"},
        ],
        ids=lambda scope: str(len(scope)) + scope["level"],
    )
    async def test_scope_comes_back_as_it_was_sent(
        self, http: httpx.AsyncClient, scope: dict[str, str], query: str
    ) -> None:
        await http.post("/remember", json={"content": "rain", "scope": scope}, headers=OPERATOR)
        (fact,) = (
            await http.post(
                f"/recall{query}", json={"query": "rain", "scope": scope}, headers=OPERATOR
            )
        ).json()
        assert fact["scope"] == scope

    async def test_source_names_mission_and_experiment(self, http: httpx.AsyncClient) -> None:
        source = {"type": "experiment", "mission_id": "demo/m-1", "experiment_id": "e-1"}
        await http.post("/remember", json={"content": "rain", "source": source}, headers=OPERATOR)
        (fact,) = (await http.post("/recall", json={"query": "rain"}, headers=OPERATOR)).json()
        assert {name: fact["source"].get(name) for name in source} == source

    async def test_source_of_nothing_names_none(self, http: httpx.AsyncClient) -> None:
        await http.post("/remember", json={"content": "rain"}, headers=OPERATOR)
        (fact,) = (await http.post("/recall", json={"query": "rain"}, headers=OPERATOR)).json()
        assert set(fact["source"]) == {"type", "refs", "actor", "author"}

    async def test_validity_begins_when_it_was_told_or_else_recorded(
        self, http: httpx.AsyncClient
    ) -> None:
        since = "2026-01-02T00:00:00Z"
        reported_fact = {"content": "rain since new year", "valid_from": since}
        await http.post("/v1/facts", json=reported_fact, headers=OPERATOR)
        await http.post("/remember", json={"content": "rain in spring"}, headers=OPERATOR)
        facts = (await http.post("/recall", json={"query": "rain"}, headers=OPERATOR)).json()
        by_content = {fact["content"]: fact for fact in facts}
        assert by_content["rain since new year"]["valid_from"] == since
        plain = by_content["rain in spring"]
        assert plain["valid_from"] == plain["recorded_at"]
        assert plain["valid_until"] is None

    async def test_nothing_else_that_is_known_of_a_fact_is_left_out(
        self, http: httpx.AsyncClient
    ) -> None:
        body = {"content": "rain", "data": {"mm": 3}, "schema": "block/1", "tags": ["wet"]}
        await http.post("/v1/facts", json=body | {"scope": TEAM}, headers=OPERATOR)
        question = {"query": "rain", "scope": TEAM}
        (own_fact,) = (
            await http.post(
                "/v1/recall", json={"query": "rain", "scopes": [TEAM]}, headers=OPERATOR
            )
        ).json()["facts"]
        (theirs,) = (await http.post("/recall", json=question, headers=OPERATOR)).json()
        # Age is a part of scores, and the second question is asked later.
        changed = {"scope", "source", "valid_from", "score", "parts"}
        assert set(theirs) == set(own_fact)
        assert {k: v for k, v in theirs.items() if k not in changed} == {
            k: v for k, v in own_fact.items() if k not in changed
        }
