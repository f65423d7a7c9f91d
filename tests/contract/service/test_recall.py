"""Recall over HTTP: what fills up a run, what settings of a scope do, repeats and budgets."""

from __future__ import annotations

import pytest

from knowledge_client.models import (
    FactIn,
    Injection,
    RecallIn,
    ScopeConfig,
)
from knowledge_service.ports import Store
from knowledge_service.store.sqlite.store import SqliteStore
from tests.contract.service.callers import Connect
from tests.knowledge_builders import TEAM, run_in


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

    async def test_synonyms_of_a_scope_serve_it_and_those_below_it_alone(
        self, connect: Connect
    ) -> None:
        await connect("ada").remember(FactIn(content="the pager rang twice", scope=TEAM))
        question = RecallIn(query="who is oncall?")
        assert (await connect("lead").recall(question)).facts == ()
        synonyms = (("oncall", "Pager"),)
        await connect("operator").put_scope("realm:other", ScopeConfig(synonyms=synonyms))
        assert (await connect("lead").recall(question)).facts == ()
        await connect("operator").put_scope("realm:demo", ScopeConfig(synonyms=synonyms))
        (fact,) = (await connect("lead").recall(question)).facts
        assert fact.content == "the pager rang twice"

    async def test_replay_uses_the_synonyms_of_its_time(self, connect: Connect) -> None:
        await connect("ada").remember(FactIn(content="the pager rang twice", scope=TEAM))
        operator = connect("operator")
        await operator.put_scope(TEAM, ScopeConfig(synonyms=(("oncall", "pager"),)))
        answer = await connect("lead").recall(RecallIn(query="who is oncall?"))
        assert answer.receipt is not None
        await operator.put_scope(TEAM, ScopeConfig())
        assert (await connect("lead").recall(RecallIn(query="who is oncall?"))).facts == ()
        replay = await connect("lead").replay(answer.receipt)
        assert replay.equal
        assert replay.facts == (answer.facts[0].id,)

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

            store._writer._health.fatal_error = StoreUnavailable("the disk is full")
            answer = await connect("lead").recall(RecallIn(query="rain"))
            assert (answer.receipt, len(answer.facts)) == (None, 1)
