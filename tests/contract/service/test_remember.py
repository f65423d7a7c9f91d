"""Telling facts over HTTP: what is stored, confirmed, masked or refused, and rehearsed."""

from __future__ import annotations

import httpx
import pytest

from knowledge_client import errors
from knowledge_client.models import (
    AliasIn,
    ConfirmIn,
    CorrectIn,
    EpisodeIn,
    EpisodesIn,
    FactIn,
    FactsIn,
    ReasonIn,
    RecallIn,
    Ref,
    Source,
    WireScope,
)
from tests.contract.service.callers import OPERATOR, Connect
from tests.knowledge_builders import LEAD, TEAM, run_in


class TestFacts:
    async def test_new_is_201_and_confirmed_is_200(self, http: httpx.AsyncClient) -> None:
        body = {"content": "rain", "scope": TEAM}
        statuses = [
            (await http.post("/v1/facts", json=body, headers=OPERATOR)).status_code
            for _ in range(2)
        ]
        assert statuses == [201, 200]

    async def test_both_spellings_are_read(self, http: httpx.AsyncClient) -> None:
        body = {"content": "rain", "validUntil": "2030-01-01T00:00:00Z", "scope": TEAM}
        reported_body = (await http.post("/v1/facts", json=body, headers=OPERATOR)).json()
        matching_body = (
            await http.get(f"/v1/facts/{reported_body['fact_id']}", headers=OPERATOR)
        ).json()
        assert matching_body["valid_until"] == "2030-01-01T00:00:00Z"

    async def test_scope_in_the_references_spelling_takes_missing_ids_from_home(
        self, connect: Connect
    ) -> None:
        lead = connect("lead")
        remembered = await lead.remember(FactIn(content="x", scope=WireScope(level="cell")))
        assert (await lead.get_fact(remembered.fact_id)).scope == LEAD

    async def test_actor_is_the_caller_whatever_the_body_says(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        body = {"content": "x", "source": {"type": "user_input", "actor": "demo/lead-1"}}
        headers = {"Authorization": "Bearer lead"}
        report = (await http.post("/v1/facts", json=body, headers=headers)).json()
        assert (await connect("lead").get_fact(report["fact_id"])).source.actor == "demo/lead-0"

    async def test_secrets_are_masked_before_they_are_stored(self, connect: Connect) -> None:
        lead = connect("lead")
        reported_result = await lead.remember(
            FactIn(content="log in with api_key=abcdef0123456789", data={"password": "hunter22"})
        )
        fact = await lead.get_fact(reported_result.fact_id)
        assert fact.content == "log in with api_key=[masked]"
        assert fact.data == {"password": "[masked]"}

    async def test_secrets_are_masked_wherever_text_is_kept(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        operator, secret = connect("operator"), "ghp_" + "a" * 36
        source = Source(refs=(Ref(type=secret, id=secret),))
        fact = FactIn(
            content="x", scope=TEAM, subject=secret, predicate=secret, tags=(secret,),
            schema=secret, about=secret, data={secret: {secret: 1}}, source=source,
        )  # fmt: skip
        remembered = await operator.remember(fact)
        await operator.confirm(remembered.fact_id, ConfirmIn(session=secret))
        await operator.correct(remembered.fact_id, CorrectIn(reason=f"it was {secret}"))
        run = run_in(objective=f"use {secret}", parameters={"a": [secret], "password": "hunter22"})
        await operator.put_run("r", run)
        line = EpisodeIn(type="message", content="x", refs=source.refs)
        await operator.add_episodes(EpisodesIn(run_id="r", episodes=(line,)))
        paths = (
            f"facts/{remembered.fact_id}",
            f"facts/{remembered.fact_id}/why",
            "runs/r",
            "runs/r/episodes",
        )
        texts = [(await http.get(f"/v1/{path}", headers=OPERATOR)).text for path in paths]
        response = await http.post(
            f"/v1/facts/{remembered.fact_id}:correct", json={"reason": "x"}, headers=OPERATOR
        )
        for text in (*texts, response.text):
            assert "[masked]" in text
            assert secret not in text
            assert "hunter22" not in text

    async def test_pages_follow_their_cursors(self, connect: Connect) -> None:
        lead = connect("lead")
        batch = FactsIn(facts=tuple(FactIn(content=f"fact {n}") for n in range(5)))
        stored = await lead.remember_batch(batch)
        observed: list[str] = []
        cursor = None
        while True:
            page = await lead.list_facts(limit=2, cursor=cursor)
            observed += [fact.id for fact in page.facts]
            cursor = page.cursor
            if cursor is None:
                break
        assert observed == [result.fact_id for result in stored.results][::-1]

    async def test_equal_to_a_retracted_fact_is_refused_with_the_reason(
        self, connect: Connect
    ) -> None:
        lead = connect("lead")
        stored = await lead.remember(FactIn(content="rain falls up"))
        await lead.correct(stored.fact_id, CorrectIn(reason="it falls down"))
        with pytest.raises(errors.Conflict, match="it falls down") as caught:
            await lead.remember(FactIn(content="rain falls up"))
        assert caught.value.code == errors.ErrorCode.RETRACTED_BEFORE

    async def test_key_with_another_body_is_409(self, connect: Connect) -> None:
        lead = connect("lead")
        await lead.remember(FactIn(content="a"), idempotency_key="k")
        with pytest.raises(errors.Conflict) as caught:
            await lead.remember(FactIn(content="b"), idempotency_key="k")
        assert caught.value.code == errors.ErrorCode.IDEMPOTENCY_CONFLICT


class TestRehearsing:
    """`dry_run` tells what would be done, and does nothing."""

    async def test_new_fact_has_no_id_and_is_not_there(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        operator = connect("operator")
        initial_entries = (await http.get("/v1/audit", headers=OPERATOR)).json()["entries"]
        fact = FactIn(content="rain", scope=LEAD, aliases=(AliasIn(namespace="n", prefix="R-"),))
        remembered = await operator.remember(fact, dry_run=True)
        assert (remembered.status, remembered.fact_id) == ("created", "")
        assert [alias.value for alias in remembered.aliases] == ["R-1"]
        assert (await operator.list_facts()).facts == ()
        assert (await operator.recall(RecallIn(query="rain"))).facts == ()
        final_entries = (await http.get("/v1/audit", headers=OPERATOR)).json()["entries"]
        assert [item for item in final_entries if item["action"] != "recall"] == initial_entries
        # The number that was told is still free, and so is the key of the repeat.
        stored_result = await operator.remember(fact, idempotency_key="k")
        assert [alias.value for alias in stored_result.aliases] == ["R-1"]

    async def test_answer_is_200_and_says_what_would_be_confirmed_or_replaced(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        operator = connect("operator")
        key = {"subject": "build", "predicate": "needs", "scope": TEAM}
        java = (await operator.remember(FactIn(content="Java 21", **key))).fact_id
        facts = [{"content": "Java 21", **key}, {"content": "Java 25", **key}]
        response = await http.post("/v1/facts?dry_run=true", json=facts[0], headers=OPERATOR)
        assert (response.status_code, response.json()["status"]) == (200, "confirmed")
        assert response.json()["fact_id"] == java
        batch = FactsIn(facts=tuple(FactIn(**fact) for fact in facts))
        confirmed, created = (await operator.remember_batch(batch, dry_run=True)).results
        assert (confirmed.status, created.status) == ("confirmed", "created")
        assert (created.fact_id, created.superseded) == ("", (java,))
        assert (await operator.get_fact(java)).version == 1

    @pytest.mark.parametrize(
        "message", ["dry_run", "dry_run=true", "dryRun=true", "dryRun", "dry_run=1"]
    )
    async def test_every_way_of_saying_it_keeps_nothing(
        self, http: httpx.AsyncClient, message: str
    ) -> None:
        for path, body in (("", {"content": "x"}), (":batch", {"facts": [{"content": "x"}]})):
            reported_response = await http.post(
                f"/v1/facts{path}?{message}", json=body, headers=OPERATOR
            )
            assert reported_response.status_code == 200, reported_response.text
        assert (await http.get("/v1/facts", headers=OPERATOR)).json()["facts"] == []

    async def test_what_would_be_refused_is_refused(self, connect: Connect) -> None:
        lead = connect("lead")
        with pytest.raises(errors.KnowledgeError, match="scope-forbidden"):
            await lead.remember(FactIn(content="x", scope="realm:other"), dry_run=True)
        reported_result = await lead.remember(FactIn(content="x"))
        await lead.retract(reported_result.fact_id, ReasonIn(reason="no"))
        with pytest.raises(errors.Conflict, match="retracted-before"):
            await lead.remember(FactIn(content="x"), dry_run=True)
