"""Extraction beside what the run remembered by itself."""

from __future__ import annotations

from knowledge_client.models import EpisodeIn, EpisodesIn, ExtractionIn, FactIn
from knowledge_service.domain.run_reports import RunKey
from knowledge_service.extraction import job
from knowledge_service.ports import Store
from tests.contract.service.callers import Connect
from tests.knowledge_builders import TEAM, run_in

STATEMENT = "the image web:2.3 is not found; 2.3.1 is there"


async def extracted(connect: Connect, store: Store, run_id: str) -> list[str]:
    operator = connect("operator")
    lines = tuple(
        EpisodeIn(type="error", content=f"pod {name}: {STATEMENT}", error_signature="ErrImagePull")
        for name in ("web-0", "web-1")
    )
    await operator.add_episodes(EpisodesIn(run_id=run_id, episodes=lines))
    await operator.put_run(run_id, run_in(outcome="Failed"))
    await operator.start_extraction(ExtractionIn(run_id=run_id))
    facts = job.run_extraction(store, RunKey("realm:demo", run_id)).facts
    return [(await operator.get_fact(item)).content for item in facts]


async def test_what_the_run_remembered_is_not_said_again(connect: Connect, store: Store) -> None:
    await connect("operator").put_run("r", run_in())
    await connect("operator").remember(FactIn(content=STATEMENT, scope=TEAM, run="r"))
    assert await extracted(connect, store, "r") == []


async def test_what_others_remembered_is_no_reason_to_learn_less(
    connect: Connect, store: Store
) -> None:
    await connect("operator").put_run("r", run_in())
    await connect("operator").put_run("other", run_in())
    await connect("operator").remember(FactIn(content=STATEMENT, scope=TEAM, run="other"))
    assert await extracted(connect, store, "r") == [
        f"The error ErrImagePull recurs, seen as: pod web-0: {STATEMENT}"
    ]


async def test_another_change_that_helped_is_stored_and_confirms_no_other(
    connect: Connect, store: Store
) -> None:
    operator = connect("operator")
    facts = []
    for run_id, change in (("r1", "restarted db"), ("r2", "allowed 500 connections")):
        await operator.put_run(run_id, run_in())
        episodes = (
            EpisodeIn(attempt=1, type="error", content="connection refused by db"),
            EpisodeIn(attempt=2, type="decision", content=change),
        )
        await operator.add_episodes(EpisodesIn(run_id=run_id, episodes=episodes))
        await operator.put_run(run_id, run_in(outcome="Succeeded"))
        await operator.start_extraction(ExtractionIn(run_id=run_id))
        (fact_id,) = job.run_extraction(store, RunKey("realm:demo", run_id)).facts
        facts.append(await operator.get_fact(fact_id))
    assert [fact.content for fact in facts] == [
        "After the failure 'connection refused by db' this helped: restarted db",
        "After the failure 'connection refused by db' this helped: allowed 500 connections",
    ]
    assert await operator.get_fact(facts[0].id) == facts[0]
