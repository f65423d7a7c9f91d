"""What a caller tries with what it has: another's undo and history, own runs as evidence, keys."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import httpx
import pytest

from knowledge_client.models import (
    FactIn,
    LinkIn,
    Promotion,
    ReasonIn,
    RecallIn,
    RunIn,
    ScopeConfig,
)
from tests.contract.service.callers import Connect
from tests.knowledge_builders import LEAD, TEAM

RECALL = {"query": "zebra"}


def bearer(name: str, **extra_fields: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}", **extra_fields}


class TestLinksFromWhereAReaderDoesNotSee:
    async def test_history_does_not_tell_of_them(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        async with connect("operator") as operator, connect("lead") as lead:
            shared = (await operator.remember(FactIn(content="shared", scope=TEAM))).fact_id
            own_fact_id = (await lead.remember(FactIn(content="my own"))).fact_id
            path = f"/v1/facts/{shared}/history"
            initial_content = (await http.get(path, headers=bearer("peer"))).content
            await lead.link(LinkIn(from_=own_fact_id, to=shared, type="mentions"))
            assert (await http.get(path, headers=bearer("peer"))).content == initial_content
            response = await http.get(path, headers=bearer("lead"))
            assert [entry["type"] for entry in response.json()["entries"]][-1] == "link.made"

    async def test_undo_takes_back_what_the_caller_did_and_not_them(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        async with connect("team") as team, connect("lead") as lead:
            shared = (await team.remember(FactIn(content="shared"))).fact_id
            await team.retract(shared, ReasonIn(reason="wrong"))
            own_id = (await lead.remember(FactIn(content="my own"))).fact_id
            await lead.link(LinkIn(from_=own_id, to=shared, type="mentions"))
            undone = await http.post(
                f"/v1/facts/{shared}:undo", json={"reason": "right"}, headers=bearer("team")
            )
            assert undone.json() == {
                "fact_id": shared, "undone": "fact.closed", "changed": [shared],
            }  # fmt: skip
            links = await http.get(f"/v1/facts/{own_id}/links", headers=bearer("lead"))
            assert [link["closed_at"] for link in links.json()["links"]] == [None]


async def test_sessions_that_an_agent_opens_and_closes_itself_promote_nothing(
    connect: Connect, http: httpx.AsyncClient
) -> None:
    async with connect("operator") as operator, connect("lead") as lead:
        rule = Promotion(policy="Automatic", min_missions=2, min_confidence=0.1)
        await operator.put_scope(LEAD, ScopeConfig(promotion=rule))
        await lead.remember(FactIn(content="zebra tokens are always fine", confidence=1))
        for name in ("one", "two", "three"):
            run = {"kind": "session", "namespace": "demo", "scope": LEAD, "blueprint": "review"}
            await lead.put_run(name, RunIn(**run, mission=name))
            await lead.recall(RecallIn(query="zebra", run=name))
            await lead.put_run(name, RunIn(**run, mission=name, outcome="Succeeded"))
        response = await http.get("/v1/facts", params={"scope": TEAM}, headers=bearer("lead"))
        assert response.json()["facts"] == []


@pytest.mark.parametrize("verb", ["recall", "confirm"])
async def test_answer_that_is_kept_for_a_repeat_is_erased_with_the_fact(
    connect: Connect, http: httpx.AsyncClient, verb: str
) -> None:
    async with connect("keeper") as keeper:
        fact = (await keeper.remember(FactIn(content="zebra", scope=TEAM))).fact_id
        path, body = {
            "recall": ("/v1/recall", {"query": "zebra"}),
            "confirm": (f"/v1/facts/{fact}:confirm", {}),
        }[verb]
        headers = bearer("keeper", **{"Idempotency-Key": "k"})
        initial_response = await http.post(path, json=body, headers=headers)
        assert '"content":"zebra"' in initial_response.text
        await keeper.erase(fact, ReasonIn(reason="asked to"))
        final_response = await http.post(path, json=body, headers=headers)
        assert "zebra" not in final_response.text


@pytest.mark.parametrize("erase", [True, False])
async def test_stored_response_is_deleted_with_the_scope_of_its_facts(
    connect: Connect, http: httpx.AsyncClient, *, erase: bool
) -> None:
    async with connect("keeper") as keeper:
        for scope in (TEAM, LEAD):
            await keeper.remember(FactIn(content="zebra", scope=scope))
        headers = bearer("keeper", **{"Idempotency-Key": "k"})
        body = {"query": "zebra", "scopes": [TEAM]}
        initial_response = await http.post("/v1/recall", json=body, headers=headers)
        assert '"content":"zebra"' in initial_response.text
        await keeper.delete_scope(LEAD, erase=erase)
        other_response = await http.post("/v1/recall", json=body, headers=headers)
        assert other_response.content == initial_response.content
        await keeper.delete_scope(TEAM, erase=erase)
        final_response = await http.post("/v1/recall", json=body, headers=headers)
        assert final_response.json()["facts"] == []


@pytest.mark.parametrize("doing", ["replay", "diff", "explain"])
async def test_asking_a_receipts_question_again_takes_from_the_share_of_recalls(
    http: httpx.AsyncClient, doing: str
) -> None:
    headers = bearer("asking", **{"Idempotency-Key": "commits the receipt"})
    recalled = await http.post("/v1/recall", json=RECALL, headers=headers)
    path = f"/v1/receipts/{recalled.json()['receipt']}:{doing}"
    params = {"fact": "x"} if doing == "explain" else {}
    for expected in (200, 200, 429):
        response = await http.get(path, params=params, headers=bearer("asking"))
        assert response.status_code == expected


@pytest.mark.parametrize("call", ["recall", "confirm"])
async def test_responses_that_are_stored_for_repeats_count_as_bytes_of_their_caller(
    http: httpx.AsyncClient, call: str
) -> None:
    stored = [
        await http.post(
            "/v1/facts",
            json={"content": f"zebra {number}", "data": {"x": "y" * 25_000}},
            headers=bearer("storing"),
        )
        for number in range(3)
    ]
    path = "/v1/recall" if call == "recall" else f"/v1/facts/{stored[0].json()['fact_id']}:confirm"
    body = RECALL if call == "recall" else {}

    async def repeatable(number: int) -> httpx.Response:
        headers = bearer("storing", **{"Idempotency-Key": f"key-{number}"})
        return await http.post(path, json=body, headers=headers)

    responses = [await repeatable(number) for number in range(3)]
    assert responses[0].status_code == 200
    assert responses[-1].status_code == 429
    assert "100000 bytes a minute" in responses[-1].json()["detail"]
    assert 0 < int(responses[-1].headers["retry-after"]) <= 120
    unkept = await http.post("/v1/recall", json=RECALL, headers=bearer("storing"))
    assert unkept.status_code == 200


@pytest.mark.parametrize("length", ["0" * 5000 + "15", "9" * 5000])
@pytest.mark.parametrize("path", ["/v1/facts", "/correct"])
async def test_length_of_many_digits_is_no_fault_of_ours(
    http: httpx.AsyncClient, path: str, length: str
) -> None:
    headers = bearer("lead", **{"Content-Type": "application/json", "Content-Length": length})
    response = await http.post(path, content=b'{"content":"x"}', headers=headers)
    assert response.status_code < 500


async def test_of_two_keys_the_first_counts_on_every_route(http: httpx.AsyncClient) -> None:
    keys = [("Authorization", "Bearer lead"), ("Idempotency-Key", "A")]
    await http.post("/v1/facts", json={"content": "one"}, headers=keys)
    two = [*keys, ("Idempotency-Key", "B")]
    for query in ("", "?dry_run=false"):  # the second is not answered by the fast route
        response = await http.post(f"/v1/facts{query}", json={"content": "two"}, headers=two)
        assert response.status_code == 409


class TestCallersOfOneName:
    @pytest.mark.parametrize("name", ["namesake", "double"])
    @pytest.mark.parametrize(
        ("path", "body"), [("/v1/facts", {"content": "told first"}), ("/v1/recall", RECALL)]
    )
    async def test_get_answers_of_their_own_to_the_same_key(
        self, http: httpx.AsyncClient, name: str, path: str, body: dict[str, str]
    ) -> None:
        key = {"Idempotency-Key": "k"}
        first = await http.post(path, json=body, headers=bearer("lead", **key))
        theirs = await http.post(path, json=body, headers=bearer(name, **key))
        response = await http.post(path, json=body, headers=bearer("lead", **key))
        assert response.content == first.content
        assert theirs.is_success
        # A person of the same home confirms the fact that the cell told, anybody else tells it.
        assert theirs.content != first.content

    async def test_hear_nothing_of_a_key_that_another_used(self, http: httpx.AsyncClient) -> None:
        key = {"Idempotency-Key": "k"}
        await http.post("/v1/facts", json={"content": "one"}, headers=bearer("lead", **key))
        response = await http.post(
            "/v1/facts", json={"content": "2"}, headers=bearer("double", **key)
        )
        assert response.status_code == 201


class TestBodies:
    @pytest.mark.parametrize("path", ["/v1/facts", "/v1/facts?x", "/correct"])
    async def test_of_somebody_unknown_nothing_is_read(
        self, http: httpx.AsyncClient, path: str
    ) -> None:
        pieces = []

        async def body() -> AsyncIterator[bytes]:
            for piece in (b'{"content":', b'"x"}'):
                pieces.append(piece)
                yield piece

        headers = {"Content-Type": "application/json", "Content-Length": "15"}
        response = await http.post(path, content=body(), headers=headers)
        assert (response.status_code, pieces) == (401, [])

    @pytest.mark.parametrize(
        ("path", "body", "name"),
        [
            ("/v1/recall", {"query": "x", "tags": [1] * 300_000}, "tags"),
            ("/v1/recall", {"query": "x", "whyNot": [1] * 300_000}, "whyNot"),
            ("/v1/facts:batch", {"facts": [{}] * 300_000}, "facts"),
            ("/v1/usage", {"uses": [{}] * 300_000}, "uses"),
        ],
    )
    async def test_list_far_beyond_its_bound_is_refused_once_and_at_once(
        self, http: httpx.AsyncClient, path: str, body: dict[str, object], name: str
    ) -> None:
        started_at = time.process_time()
        matching_response = await http.post(path, json=body, headers=bearer("lead"))
        assert time.process_time() - started_at < 2
        (violation,) = matching_response.json()["violations"]
        assert f"{name} may have" in violation["message"]

    async def test_mistakes_beyond_those_that_anybody_mends_are_not_listed(
        self, http: httpx.AsyncClient
    ) -> None:
        body = {"facts": [{"tags": [1] * 30}] * 200}
        result = await http.post("/v1/facts:batch", json=body, headers=bearer("lead"))
        assert (result.status_code, len(result.json()["violations"])) == (422, 50)
