from __future__ import annotations

import base64

import httpx
import pytest

from knowledge_client import errors
from knowledge_client.models import (
    AliasIn,
    BlueprintName,
    ConfirmIn,
    CorrectIn,
    EpisodeIn,
    EpisodesIn,
    ExtractionIn,
    FactIn,
    FactsIn,
    Injection,
    ReasonIn,
    RecallIn,
    Ref,
    ScopeConfig,
    Source,
    StatsIn,
    WireScope,
)
from knowledge_service.app import create_app
from knowledge_service.domain.visibility import administrator
from knowledge_service.extraction import job
from knowledge_service.ports import Store
from knowledge_service.store.sqlite.store import SqliteStore
from tests.builders_knowledge import LEAD, TEAM, episode, run_in
from tests.contract.service.callers import OPERATOR, Connect
from tests.fakes.identity import NamedCallers
from tests.fakes.store import MemoryStore


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
        told = (await http.post("/v1/facts", json=body, headers=OPERATOR)).json()
        found = (await http.get(f"/v1/facts/{told['fact_id']}", headers=OPERATOR)).json()
        assert found["valid_until"] == "2030-01-01T00:00:00Z"

    async def test_scope_in_the_references_spelling_takes_missing_ids_from_home(
        self, connect: Connect
    ) -> None:
        lead = connect("lead")
        told = await lead.remember(FactIn(content="x", scope=WireScope(level="cell")))
        assert (await lead.get_fact(told.fact_id)).scope == LEAD

    async def test_actor_is_the_caller_whatever_the_body_says(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        body = {"content": "x", "source": {"type": "user_input", "actor": "demo/lead-1"}}
        headers = {"Authorization": "Bearer lead"}
        told = (await http.post("/v1/facts", json=body, headers=headers)).json()
        assert (await connect("lead").get_fact(told["fact_id"])).source.actor == "demo/lead-0"

    async def test_secrets_are_masked_before_they_are_stored(self, connect: Connect) -> None:
        lead = connect("lead")
        told = await lead.remember(
            FactIn(content="log in with api_key=abcdef0123456789", data={"password": "hunter22"})
        )
        found = await lead.get_fact(told.fact_id)
        assert found.content == "log in with api_key=[masked]"
        assert found.data == {"password": "[masked]"}

    async def test_secrets_are_masked_wherever_text_is_kept(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        operator, secret = connect("operator"), "ghp_" + "a" * 36
        source = Source(refs=(Ref(type=secret, id=secret),))
        fact = FactIn(
            content="x", scope=TEAM, subject=secret, predicate=secret, tags=(secret,),
            schema=secret, about=secret, data={secret: {secret: 1}}, source=source,
        )  # fmt: skip
        told = await operator.remember(fact)
        await operator.confirm(told.fact_id, ConfirmIn(session=secret))
        await operator.correct(told.fact_id, CorrectIn(reason=f"it was {secret}"))
        kept = run_in(objective=f"use {secret}", parameters={"a": [secret], "password": "hunter22"})
        await operator.put_run("r", kept)
        line = EpisodeIn(type="message", content="x", refs=source.refs)
        await operator.add_episodes(EpisodesIn(run_id="r", episodes=(line,)))
        paths = (f"facts/{told.fact_id}", f"facts/{told.fact_id}/why", "runs/r", "runs/r/episodes")
        said = [(await http.get(f"/v1/{path}", headers=OPERATOR)).text for path in paths]
        again = await http.post(
            f"/v1/facts/{told.fact_id}:correct", json={"reason": "x"}, headers=OPERATOR
        )
        for text in (*said, again.text):
            assert "[masked]" in text
            assert secret not in text
            assert "hunter22" not in text

    async def test_pages_follow_their_cursors(self, connect: Connect) -> None:
        lead = connect("lead")
        batch = FactsIn(facts=tuple(FactIn(content=f"fact {n}") for n in range(5)))
        stored = await lead.remember_batch(batch)
        seen: list[str] = []
        cursor = None
        while True:
            page = await lead.list_facts(limit=2, cursor=cursor)
            seen += [fact.id for fact in page.facts]
            cursor = page.cursor
            if cursor is None:
                break
        assert seen == [result.fact_id for result in stored.results][::-1]

    async def test_equal_to_a_retracted_fact_is_refused_with_the_reason(
        self, connect: Connect
    ) -> None:
        lead = connect("lead")
        told = await lead.remember(FactIn(content="rain falls up"))
        await lead.correct(told.fact_id, CorrectIn(reason="it falls down"))
        with pytest.raises(errors.Conflict, match="it falls down") as caught:
            await lead.remember(FactIn(content="rain falls up"))
        assert caught.value.code == errors.Code.RETRACTED_BEFORE

    async def test_key_with_another_body_is_409(self, connect: Connect) -> None:
        lead = connect("lead")
        await lead.remember(FactIn(content="a"), idempotency_key="k")
        with pytest.raises(errors.Conflict) as caught:
            await lead.remember(FactIn(content="b"), idempotency_key="k")
        assert caught.value.code == errors.Code.IDEMPOTENCY_CONFLICT


class TestRehearsing:
    """`dry_run` tells what would be done, and does nothing."""

    async def test_new_fact_has_no_id_and_is_not_there(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        operator = connect("operator")
        before = (await http.get("/v1/audit", headers=OPERATOR)).json()["entries"]
        fact = FactIn(content="rain", scope=LEAD, aliases=(AliasIn(namespace="n", prefix="R-"),))
        told = await operator.remember(fact, dry_run=True)
        assert (told.status, told.fact_id) == ("created", "")
        assert [alias.value for alias in told.aliases] == ["R-1"]
        assert (await operator.list_facts()).facts == ()
        assert (await operator.recall(RecallIn(query="rain"))).facts == ()
        after = (await http.get("/v1/audit", headers=OPERATOR)).json()["entries"]
        assert [each for each in after if each["action"] != "recall"] == before
        # The number that was told is still free, and so is the key of the repeat.
        kept = await operator.remember(fact, idempotency_key="k")
        assert [alias.value for alias in kept.aliases] == ["R-1"]

    async def test_answer_is_200_and_says_what_would_be_confirmed_or_replaced(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        operator = connect("operator")
        key = {"subject": "build", "predicate": "needs", "scope": TEAM}
        java = (await operator.remember(FactIn(content="Java 21", **key))).fact_id
        facts = [{"content": "Java 21", **key}, {"content": "Java 25", **key}]
        told = await http.post("/v1/facts?dry_run=true", json=facts[0], headers=OPERATOR)
        assert (told.status_code, told.json()["status"]) == (200, "confirmed")
        assert told.json()["fact_id"] == java
        batch = FactsIn(facts=tuple(FactIn(**fact) for fact in facts))
        confirmed, created = (await operator.remember_batch(batch, dry_run=True)).results
        assert (confirmed.status, created.status) == ("confirmed", "created")
        assert (created.fact_id, created.superseded) == ("", (java,))
        assert (await operator.get_fact(java)).version == 1

    @pytest.mark.parametrize(
        "said", ["dry_run", "dry_run=true", "dryRun=true", "dryRun", "dry_run=1"]
    )
    async def test_every_way_of_saying_it_keeps_nothing(
        self, http: httpx.AsyncClient, said: str
    ) -> None:
        for path, body in (("", {"content": "x"}), (":batch", {"facts": [{"content": "x"}]})):
            told = await http.post(f"/v1/facts{path}?{said}", json=body, headers=OPERATOR)
            assert told.status_code == 200, told.text
        assert (await http.get("/v1/facts", headers=OPERATOR)).json()["facts"] == []

    async def test_what_would_be_refused_is_refused(self, connect: Connect) -> None:
        lead = connect("lead")
        with pytest.raises(errors.KnowledgeError, match="scope-forbidden"):
            await lead.remember(FactIn(content="x", scope="realm:other"), dry_run=True)
        told = await lead.remember(FactIn(content="x"))
        await lead.retract(told.fact_id, ReasonIn(reason="no"))
        with pytest.raises(errors.Conflict, match="retracted-before"):
            await lead.remember(FactIn(content="x"), dry_run=True)


class TestRecall:
    async def test_run_is_filled_up_with_what_its_scope_knows(self, connect: Connect) -> None:
        await connect("operator").put_run("r", run_in())
        await connect("ada").remember(FactIn(content="volumes need a class", scope=TEAM))
        plain = await connect("lead").recall(RecallIn(query="explain pods"))
        assert plain.facts == ()
        bound = await connect("lead").recall(RecallIn(query="explain pods", run="r"))
        assert [(f.content, f.score) for f in bound.facts] == [("volumes need a class", 0.0)]
        assert list(bound.facts[0].parts) == ["recent"]

    async def test_matches_come_before_what_fills_up(self, connect: Connect) -> None:
        await connect("operator").put_run("r", run_in())
        ada = connect("ada")
        await ada.remember(FactIn(content="pods need a limit", scope=TEAM))
        await ada.remember(FactIn(content="volumes need a class", scope=TEAM, confidence=0.9))
        answer = await connect("lead").recall(RecallIn(query="explain pods", run="r"))
        assert [(f.rank, f.content) for f in answer.facts] == [
            (1, "pods need a limit"),
            (2, "volumes need a class"),
        ]

    async def test_repeat_with_its_key_gives_the_same_receipt_and_facts(
        self, connect: Connect
    ) -> None:
        await connect("operator").put_run("r", run_in())
        lead, question = connect("lead"), RecallIn(query="rain", run="r")
        first = await lead.recall(question, idempotency_key="k")
        await lead.remember(FactIn(content="rain"))
        assert await lead.recall(question, idempotency_key="k") == first
        assert (await lead.recall(question)).facts != ()

    @pytest.mark.parametrize(
        ("injection", "expected"),
        [
            (Injection(enabled=False), []),
            (Injection(max_facts=1), ["rain: sure"]),
            (Injection(max_facts=0), []),
            (Injection(min_confidence=0.7), ["rain: sure"]),
            (Injection(max_tokens=3), ["rain: sure"]),
            (Injection(min_confidence=0), ["rain: sure", "rain: perhaps"]),
        ],
    )
    async def test_injection_settings_hold_for_runs(
        self, connect: Connect, injection: Injection, expected: list[str]
    ) -> None:
        operator = connect("operator")
        await operator.put_run("r", run_in())
        await operator.put_scope(TEAM, ScopeConfig(injection=injection))
        for content, confidence in (("rain: sure", 0.9), ("rain: perhaps", 0.3)):
            await connect("ada").remember(
                FactIn(content=content, scope=TEAM, confidence=confidence)
            )
        answer = await connect("lead").recall(RecallIn(query="rain", run="r"))
        assert [fact.content for fact in answer.facts] == expected
        assert answer.receipt is not None
        assert len((await connect("lead").get_receipt(answer.receipt)).facts) == len(expected)

    async def test_scope_that_does_not_inherit_hides_what_is_above(self, connect: Connect) -> None:
        operator = connect("operator")
        await connect("ada").remember(FactIn(content="rain", scope="realm:demo"))
        assert len((await connect("lead").recall(RecallIn(query="rain"))).facts) == 1
        await operator.put_scope(TEAM, ScopeConfig(inherit=False))
        assert (await connect("lead").recall(RecallIn(query="rain"))).facts == ()

    async def test_token_budget_bounds_the_answer(self, connect: Connect) -> None:
        for n in range(4):
            await connect("lead").remember(FactIn(content=f"rain {n} " + "x" * 33))
        answer = await connect("lead").recall(RecallIn(query="rain", max_tokens=20))
        assert len(answer.facts) == 2

    async def test_store_that_takes_no_writes_still_answers_without_receipt(
        self, connect: Connect, store: Store
    ) -> None:
        await connect("lead").remember(FactIn(content="rain"))
        if isinstance(store, SqliteStore):
            from knowledge_service.errors import StoreUnavailable  # noqa: PLC0415

            store._writer._failure = StoreUnavailable("the disk is full")
            answer = await connect("lead").recall(RecallIn(query="rain"))
            assert (answer.receipt, len(answer.facts)) == (None, 1)


class TestRuns:
    async def test_closing_otherwise_is_409_with_the_recorded_outcome(
        self, connect: Connect
    ) -> None:
        operator = connect("operator")
        await operator.put_run("r", run_in(outcome="Succeeded"))
        with pytest.raises(errors.Conflict, match="closed with outcome Succeeded") as caught:
            await operator.put_run("r", run_in(outcome="Failed"))
        assert caught.value.code == errors.Code.RUN_CLOSED_OTHERWISE

    async def test_record_is_read_in_pages(self, connect: Connect) -> None:
        operator = connect("operator")
        await operator.put_run("r", run_in())
        lines = tuple(episode(f"line {n}") for n in range(5))
        await operator.add_episodes(EpisodesIn(run_id="r", episodes=lines))
        first = await operator.list_episodes("r", limit=3)
        rest = await operator.list_episodes("r", limit=3, cursor=first.cursor)
        assert [e.seq for e in (*first.episodes, *rest.episodes)] == [1, 2, 3, 4, 5]
        assert rest.cursor is None

    async def test_statistics_answer_in_the_order_of_the_questions(self, connect: Connect) -> None:
        operator = connect("operator")
        await operator.put_run("r", run_in(outcome="Succeeded", revision=2))
        names = tuple(BlueprintName(namespace="demo", name=name) for name in ("none", "review"))
        stats = await operator.stats_batch(StatsIn(blueprints=names, scopes=(TEAM, "platform")))
        assert [(b.name, b.uses) for b in stats.blueprints] == [("none", 0), ("review", 1)]
        assert [scope.path for scope in stats.scopes] == [TEAM, "platform"]
        assert (await operator.blueprint_stats("demo", "review")).last_revision == 2
        assert [run.run_id for run in (await operator.list_runs(namespace="demo")).runs] == ["r"]

    async def test_one_blueprints_statistics_tell_its_parameter_values(
        self, connect: Connect
    ) -> None:
        operator = connect("operator")
        await operator.put_run("r", run_in(outcome="Failed", parameters={"tier": "small"}))
        (tier,) = (await operator.blueprint_stats("demo", "review")).parameters
        assert (tier.name, tier.values[0].value, tier.values[0].failed) == ("tier", '"small"', 1)
        name = BlueprintName(namespace="demo", name="review")
        batch = await operator.stats_batch(StatsIn(blueprints=(name,)))
        assert batch.blueprints[0].parameters == ()


class TestExtraction:
    async def test_run_that_is_open_is_not_extracted(self, connect: Connect) -> None:
        await connect("operator").put_run("r", run_in())
        with pytest.raises(errors.Conflict, match="run r is still open; close it"):
            await connect("operator").start_extraction(ExtractionIn(run_id="r"))

    async def test_facts_carry_their_mission_run_and_episodes(
        self, connect: Connect, store: Store
    ) -> None:
        operator = connect("operator")
        await operator.put_run("r", run_in(mission="m-1"))
        failing = tuple(
            episode(f"pod {name}: no such image", type="error", error_signature="ImagePullBackOff")
            for name in ("a", "b")
        )
        await connect("lead").add_episodes(EpisodesIn(run_id="r", episodes=failing))
        await operator.put_run("r", run_in(outcome="InfrastructureFailed"))
        accepted = await operator.start_extraction(ExtractionIn(run_id="r"))
        assert accepted.state == "pending"
        job.run(store, "r")
        done = await operator.get_extraction("r")
        assert (done.state, len(done.facts)) == ("done", 1)
        fact = await connect("lead").get_fact(done.facts[0])
        assert (fact.scope, fact.kind, fact.source.type) == (TEAM, "pitfall", "mission_extraction")
        assert "ImagePullBackOff" in fact.content
        assert [(ref.type, ref.id) for ref in fact.source.refs] == [
            ("mission", "demo/m-1"),
            ("run", "r"),
            ("episode", "r/1"),
            ("episode", "r/2"),
        ]
        assert (await operator.get_run("r")).outcome == "InfrastructureFailed"

    async def test_switched_off_in_the_scope_is_done_with_the_reason(
        self, connect: Connect, store: Store
    ) -> None:
        operator = connect("operator")
        await operator.put_run("r", run_in(outcome="Failed"))
        off = ScopeConfig.model_validate({"extraction": {"enabled": False}})
        await operator.put_scope(TEAM, off)
        await operator.start_extraction(ExtractionIn(run_id="r"))
        job.run(store, "r")
        done = await operator.get_extraction("r")
        assert (done.state, done.reason) == ("done", f"extraction is switched off in {TEAM}")


class TestScopes:
    async def test_undeclared_scope_has_the_defaults(self, connect: Connect) -> None:
        found = await connect("lead").get_scope(TEAM)
        assert (found.declared, found.config) == (False, ScopeConfig())

    async def test_deleted_scope_is_empty(self, connect: Connect) -> None:
        operator = connect("operator")
        await operator.put_scope(TEAM, ScopeConfig(read_only=True))
        assert (await operator.get_scope(TEAM)).declared
        await operator.delete_scope(TEAM)
        assert not (await operator.get_scope(TEAM)).declared
        with pytest.raises(errors.NotFound, match=f"scope {TEAM} does not exist"):
            await operator.delete_scope(TEAM)

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
        told = await http.post("/remember", json=body, headers=OPERATOR)
        assert (told.status_code, list(told.json())) == (200, ["factId"])
        question = {"query": "rain", "scope": scope, "maxResults": 5}
        found = await http.post("/recall", json=question, headers=OPERATOR)
        (fact,) = found.json()
        assert (fact["id"], fact["content"]) == (told.json()["factId"], "rain falls up")
        assert fact["source"]["refs"] == [{"type": "mission", "id": "m-1"}]
        assert found.headers["kais-receipt"]
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
        assert answer.json()["detail"] == "data has 70008 bytes, at most 65536"

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

    async def test_cursor_that_is_none_of_ours_is_refused(self, http: httpx.AsyncClient) -> None:
        answer = await http.get("/v1/facts?cursor=%ff", headers=OPERATOR)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid-body")


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
            (told,) = [r for r in caplog.records if r.message == "request refused"]
            assert told.fields["why"] == "the disk is gone"  # type: ignore[attr-defined]
        assert (await http.get("/healthz")).json()["status"] == "ok"

    async def test_metrics_are_labelled_by_route_template(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        told = await connect("lead").remember(FactIn(content="x"))
        await connect("lead").get_fact(told.fact_id)
        text = (await http.get("/metrics")).text
        assert 'route="/v1/facts/{fact_id}"' in text
        assert told.fact_id not in text

    async def test_interface_describes_itself(self, http: httpx.AsyncClient) -> None:
        paths = (await http.get("/openapi.json")).json()["paths"]
        assert {"/v1/facts", "/v1/recall", "/v1/runs/{run_id}", "/recall"} <= set(paths)


class TestHostileBodies:
    """What no client of ours sends is refused with words, never answered by a fault."""

    @pytest.mark.parametrize(
        ("body", "said"),
        [
            pytest.param(r'{"content":"x","data":{"a":"\ud800"}}', "hex escape", id="surrogate"),
            pytest.param('{"content":"x","data":{"a":NaN}}', "expected value", id="not a number"),
            pytest.param(
                '{"content":"x","data":{"a":1e999}}', "NaN or infinite", id="infinite number"
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
        self, http: httpx.AsyncClient, body: str, said: str
    ) -> None:
        headers = OPERATOR | {"Content-Type": "application/json"}
        answer = await http.post("/v1/facts", content=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid-body")
        assert said in answer.text

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
        self, http: httpx.AsyncClient
    ) -> None:
        await http.request("BREW", "/v1/facts", headers=OPERATOR)
        text = (await http.get("/metrics")).text
        assert "BREW" not in text
        assert 'method="other"' in text
