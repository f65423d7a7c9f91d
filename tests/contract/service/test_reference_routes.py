"""The routes of the reference's clients: what they send, and what they get back."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.contract.service.callers import OPERATOR


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
        again = await http.post(f"/remember{query}", json=body, headers=headers)
        assert (again.status_code, again.json()) == (200, {"factId": fact_id})

    @pytest.mark.parametrize("query", ["", "?&"])
    async def test_key_of_another_body_is_refused(
        self, http: httpx.AsyncClient, query: str
    ) -> None:
        headers = OPERATOR | {"Idempotency-Key": "k-1"}
        await http.post(f"/remember{query}", json={"content": "rain"}, headers=headers)
        other = await http.post(f"/remember{query}", json={"content": "snow"}, headers=headers)
        assert (other.status_code, other.json()["code"]) == (409, "idempotency-conflict")

    async def test_repeated_correct_gets_the_first_answer(self, http: httpx.AsyncClient) -> None:
        told = await http.post("/remember", json={"content": "rain"}, headers=OPERATOR)
        headers = OPERATOR | {"Idempotency-Key": "k-2"}
        body: dict[str, Any] = {"fact_id": told.json()["factId"], "reason": "it is dry"}
        for _ in range(2):
            answer = await http.post("/correct", json=body, headers=headers)
            assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
        other = await http.post("/correct", json=body | {"reason": "no"}, headers=headers)
        assert other.json()["code"] == "idempotency-conflict"
        without = await http.post("/correct", json=body, headers=OPERATOR)
        assert without.status_code == 409
