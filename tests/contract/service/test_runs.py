"""Runs, their record, their statistics and what is extracted from them, over HTTP."""

from __future__ import annotations

from datetime import timedelta

import httpx
import pytest

from knowledge_client import errors
from knowledge_client.base_model import SPEAK_AS_AGENT, SPEAK_AS_HEADER
from knowledge_client.models import (
    BlueprintName,
    EpisodesIn,
    ExtractionIn,
    FactIn,
    ReasonIn,
    RecallIn,
    ScopeConfig,
    StatsIn,
)
from knowledge_service.extraction import job
from knowledge_service.ports import Store
from knowledge_service.store.sqlite.store import SqliteStore
from tests.contract.service.callers import OPERATOR, Connect, refused
from tests.knowledge_builders import LEAD, TEAM, episode, run_in, run_key
from tests.knowledge_builders import OPERATOR as ACTOR

CODE = errors.ErrorCode


class TestRuns:
    async def test_closing_otherwise_is_409_with_the_recorded_outcome(
        self, connect: Connect
    ) -> None:
        operator = connect("operator")
        await operator.put_run("r", run_in(outcome="Succeeded"))
        with pytest.raises(errors.Conflict, match="closed with outcome Succeeded") as caught:
            await operator.put_run("r", run_in(outcome="Failed"))
        assert caught.value.code == errors.ErrorCode.RUN_CLOSED_OTHERWISE

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

    async def test_fact_gains_usefulness_when_its_runs_succeed_and_loses_it_when_they_fail(
        self, connect: Connect, store: Store
    ) -> None:
        operator, ada = connect("operator"), connect("ada")

        async def factor_after(prefix: str, content: str, outcome: str) -> float:
            await ada.remember(FactIn(content=content, scope=TEAM))
            for n in range(4):
                run = f"{prefix}-{n}"
                await operator.put_run(run, run_in())
                question = RecallIn(query=content, run=run, limit=1)
                [fact] = (await connect("lead").recall(question)).facts
                assert fact.content == content
                await operator.put_run(run, run_in(outcome=outcome))
            [fact] = (await connect("lead").recall(RecallIn(query=content, limit=1))).facts
            return fact.parts.get("x_usefulness", 1.0)

        gained = await factor_after("good", "harbours close at dusk", "Succeeded")
        lost = await factor_after("bad", "ferries leave at noon", "Failed")
        ignored = await factor_after("cut", "lanterns burn whale oil", "Cancelled")
        if isinstance(store, SqliteStore):  # the fake ranks without outcomes
            assert lost < ignored < gained
        assert ignored == 1.0

    async def test_runs_with_knowledge_are_compared_with_those_of_the_holdout(
        self, connect: Connect
    ) -> None:
        operator = connect("operator")

        async def ended(name: str, arm: str, outcome: str, turns: int, revision: int = 2) -> None:
            fields = {"arm": arm, "outcome": outcome, "revision": revision, "tokens": turns * 100}
            counters = {"counters": {"turns": turns}, "parameters": {"tier": name[0]}}
            await operator.put_run(name, run_in(**fields, **counters))

        for n in range(20):
            await ended(f"a{n}", "on", "Succeeded" if n < 18 else "Failed", turns=3)
            await ended(f"b{n}", "holdout", "Succeeded" if n < 11 else "TimedOut", turns=6 + n % 2)
        await ended("c1", "on", "Cancelled", turns=50)
        await ended("c2", "off", "Failed", turns=50)
        await ended("c3", "on", "Succeeded", turns=9, revision=1)
        stats = await operator.blueprint_stats("demo", "review", compare=True)
        newest, oldest = stats.comparisons
        assert (newest.revision, newest.sentence) == (
            2,
            "With knowledge 18 of 20, without 11 of 20: 35 points more, between 7 and 57.",
        )
        assert newest.difference is not None
        assert round(newest.difference.low, 3) == 0.072
        turns, other = newest.with_knowledge.turns, newest.without_knowledge.turns
        assert turns is not None
        assert other is not None
        assert (turns.runs, turns.median, turns.low, turns.high) == (20, 3, 3, 3)
        assert (other.median, other.low, other.high) == (6.5, 6, 7)
        assert newest.with_knowledge.tokens is not None
        assert newest.with_knowledge.tokens.median == 300
        assert newest.with_knowledge.cost is None
        assert newest.not_compared == 1
        assert [(run.run_id, run.outcome) for run in newest.excluded_runs] == [("c1", "Cancelled")]
        assert (oldest.revision, oldest.sentence) == (1, "Too few runs to tell.")
        stats = await operator.blueprint_stats("demo", "review", by_parameter="tier")
        assert [(c.revision, c.value, c.with_knowledge.succeeded) for c in stats.comparisons] == [
            (2, '"a"', 18),
            (2, '"b"', 0),
            (2, '"c"', 0),
            (1, '"c"', 1),
        ]
        assert (await operator.blueprint_stats("demo", "review")).comparisons == ()

    async def test_runs_of_a_canary_are_counted_if_they_drew_their_revision_by_lot_since_then(
        self, connect: Connect
    ) -> None:
        operator = connect("operator")

        async def run(name: str, outcome: str, revision: int, **counters: int) -> None:
            await operator.put_run(
                name, run_in(outcome=outcome, revision=revision, counters=counters)
            )

        await run("early", "Succeeded", 4, canary=5)
        since = (await operator.get_run("early")).opened_at + timedelta(microseconds=1)
        await run("drawn-new", "Failed", 5, canary=5)
        await run("drawn-old", "Succeeded", 4, canary=5)
        await run("excluded", "Cancelled", 4, canary=5)
        await run("named-its-revision", "Succeeded", 4)
        await run("other-canary", "Succeeded", 4, canary=6)
        session = run_in(kind="session", outcome="Failed", revision=5, counters={"canary": 5})
        await operator.put_run("no-mission", session)
        stats = await operator.blueprint_stats("demo", "review", canary=5, since=since)
        assert [(c.revision, c.succeeded, c.failed, c.excluded) for c in stats.canary] == [
            (5, 0, 1, 0),
            (4, 1, 0, 1),
        ]
        stats = await operator.blueprint_stats("demo", "review", canary=5)
        assert [(c.revision, c.succeeded) for c in stats.canary] == [(5, 0), (4, 2)]
        assert (await operator.blueprint_stats("demo", "review")).canary == ()

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

    async def test_cost_that_no_run_reaches_is_422_and_the_largest_is_recorded(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        body = run_in(outcome="Succeeded").model_dump(mode="json", exclude_none=True)
        answer = await http.put("/v1/runs/r", json=body | {"cost": 1e308}, headers=OPERATOR)
        assert answer.status_code == 422
        assert "cost" in answer.text
        await connect("operator").put_run("r", run_in(outcome="Succeeded", cost=1e15))
        assert (await connect("operator").get_run("r")).cost == 1e15

    async def test_runs_of_an_earlier_version_with_huge_costs_are_read_and_counted(
        self, connect: Connect, store: Store
    ) -> None:
        for n in range(2):
            huge = run_in(outcome="Succeeded", revision=1).model_copy(update={"cost": 1e308})
            store.put_run(f"r{n}", huge, actor=ACTOR)
        operator = connect("operator")
        name = BlueprintName(namespace="demo", name="review")
        (batch,) = (await operator.stats_batch(StatsIn(blueprints=(name,)))).blueprints
        assert (batch.succeeded, batch.avg_cost) == (2, 1e308)
        (compared,) = (await operator.blueprint_stats("demo", "review", compare=True)).comparisons
        assert compared.with_knowledge.cost is not None
        assert compared.with_knowledge.cost.median == 1e308
        assert (await operator.get_run("r0")).cost == 1e308
        assert [run.cost for run in (await operator.list_runs()).runs] == [1e308, 1e308]
        await operator.put_run("r0", run_in(outcome="Succeeded", agent="x"))
        assert (await operator.get_run("r0")).cost == 1e308


class TestRunsOfAgents:
    async def test_run_that_an_agent_records_counts_for_no_blueprint(
        self, connect: Connect
    ) -> None:
        forged = run_in(
            kind="session", scope=LEAD, blueprint="others", revision=7, parameters={"tier": "small"}
        )
        lead = connect("lead")
        await lead.put_run("anything", forged)
        await lead.put_run("anything", forged.model_copy(update={"outcome": "Failed"}))
        name = BlueprintName(namespace="demo", name="others")
        for caller in ("operator", "keeper", "lead"):
            reader = connect(caller)
            stats = await reader.blueprint_stats("demo", "others", compare=True)
            assert (stats.uses, stats.failed, stats.success_rate) == (0, 0, None)
            assert (stats.last_revision, stats.last_used) == (None, None)
            assert (stats.comparisons, stats.parameters) == ((), ())
            (batch,) = (await reader.stats_batch(StatsIn(blueprints=(name,)))).blueprints
            assert batch.uses == 0
            (listed,) = (await reader.list_runs(namespace="demo", blueprint="others")).runs
            assert (listed.run_id, listed.revision, listed.outcome) == ("anything", 7, "Failed")

    async def test_run_that_the_agent_of_a_person_records_does_not_count(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        body = run_in(kind="session", outcome="Failed").model_dump(mode="json", exclude_none=True)
        headers = {"Authorization": "Bearer ada", SPEAK_AS_HEADER: SPEAK_AS_AGENT}
        assert (await http.put("/v1/runs/s", json=body, headers=headers)).status_code == 200
        assert (await connect("operator").blueprint_stats("demo", "review")).uses == 0

    async def test_sessions_of_the_operator_and_of_people_count(self, connect: Connect) -> None:
        await connect("operator").put_run("of-operator", run_in(kind="session"))
        await connect("ada").put_run("of-person", run_in(kind="session", outcome="Succeeded"))
        stats = await connect("operator").blueprint_stats("demo", "review")
        assert (stats.running, stats.succeeded) == (1, 1)

    async def test_agent_cannot_close_or_rename_the_session_of_the_operator(
        self, connect: Connect
    ) -> None:
        operator, cell = connect("operator"), connect("sharing")
        await operator.put_run("s", run_in(kind="session"))
        for fields in ({"outcome": "Failed"}, {"blueprint": "others"}):
            detail = await refused(
                cell.put_run("s", run_in(**{"kind": "session"} | fields)), CODE.FORBIDDEN
            )
            assert detail == (
                "demo/both is an agent and changes only sessions that an agent opened;"
                " report what happens in run s as episodes"
            )
        assert (await operator.blueprint_stats("demo", "review")).running == 1

    async def test_report_of_the_operator_does_not_make_the_session_of_an_agent_count(
        self, connect: Connect
    ) -> None:
        operator = connect("operator")
        await connect("lead").put_run("s", run_in(kind="session", scope=LEAD, revision=7))
        await operator.put_run("s", run_in(kind="session", scope=LEAD, outcome="Succeeded"))
        assert (await operator.blueprint_stats("demo", "review")).uses == 0


class TestRememberedFacts:
    async def test_an_ended_run_names_the_facts_that_its_agents_stored(
        self, connect: Connect
    ) -> None:
        operator, lead = connect("operator"), connect("first use")
        for run_id in ("r", "later"):
            await operator.put_run(run_id, run_in(mission="m-1"))
        stored = [
            await lead.remember(FactIn(content="The pier is wet.", run="r", scope=scope))
            for scope in (None, "mine")
        ]
        await lead.remember(FactIn(content="The lamp is red.", run="later"))
        await lead.remember(FactIn(content="The ferry is blue."))
        assert (await operator.get_run("r")).remembered == ()
        await operator.put_run("r", run_in(mission="m-1", outcome="Succeeded"))
        ids = [each.fact_id for each in reversed(stored)]
        assert list((await operator.get_run("r")).remembered) == ids
        await lead.retract(ids[0], ReasonIn(reason="never true"))
        assert list((await operator.get_run("r")).remembered) == ids[1:]

    async def test_a_reader_sees_no_facts_of_scopes_that_it_cannot_read(
        self, connect: Connect
    ) -> None:
        operator, lead = connect("operator"), connect("first use")
        await operator.put_run("r", run_in())
        shared = await lead.remember(FactIn(content="The pier is wet.", run="r"))
        await lead.remember(FactIn(content="The lamp is red.", run="r", scope="mine"))
        await operator.put_run("r", run_in(outcome="Succeeded"))
        seen = await connect("teammate").get_run("r")
        assert seen.remembered == (shared.fact_id,)


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
        job.run_extraction(store, run_key("r"))
        extraction = await operator.get_extraction("r")
        assert (extraction.state, len(extraction.facts)) == ("done", 1)
        fact = await connect("lead").get_fact(extraction.facts[0])
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
        scope_config = ScopeConfig.model_validate({"extraction": {"enabled": False}})
        await operator.put_scope(TEAM, scope_config)
        await operator.start_extraction(ExtractionIn(run_id="r"))
        job.run_extraction(store, run_key("r"))
        completed_extraction = await operator.get_extraction("r")
        assert (completed_extraction.state, completed_extraction.reason) == (
            "done",
            f"extraction is switched off in {TEAM}",
        )
