"""Extraction beside what the run remembered by itself."""

from __future__ import annotations

from knowledge_client.models import EpisodeIn, EpisodesIn, ExtractionIn, FactIn, ReasonIn
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


async def helped_by(
    connect: Connect, store: Store, run_id: str, change: str, failure: str = "refused by db"
) -> tuple[str, ...]:
    """Extract from a run that succeeded after a change; return the ids of the facts."""
    operator = connect("operator")
    await operator.put_run(run_id, run_in())
    episodes = (
        EpisodeIn(attempt=1, type="error", content=f"connection {failure}"),
        EpisodeIn(attempt=2, type="decision", content=change),
    )
    await operator.add_episodes(EpisodesIn(run_id=run_id, episodes=episodes))
    await operator.put_run(run_id, run_in(outcome="Succeeded"))
    await operator.start_extraction(ExtractionIn(run_id=run_id))
    return job.run_extraction(store, RunKey("realm:demo", run_id)).facts


async def test_another_change_that_helped_supersedes_the_earlier_one_and_confirms_it_not(
    connect: Connect, store: Store
) -> None:
    (first,) = await helped_by(connect, store, "r1", "restarted db")
    (second,) = await helped_by(connect, store, "r2", "allowed 500 connections")
    (third,) = await helped_by(connect, store, "r3", "allowed 300 connections")
    facts = [await connect("operator").get_fact(fact_id) for fact_id in (first, second, third)]
    assert [(fact.lifecycle, fact.content) for fact in facts] == [
        ("superseded", "After the failure 'connection refused by db' this helped: restarted db"),
        (
            "superseded",
            "After the failure 'connection refused by db' this helped: allowed 500 connections",
        ),
        (
            "live",
            "After the failure 'connection refused by db' this helped: allowed 300 connections",
        ),
    ]


async def test_the_same_change_after_the_same_failure_confirms_the_fact(
    connect: Connect, store: Store
) -> None:
    first = await helped_by(connect, store, "r1", "restarted db", "to 10.0.0.4 refused")
    assert await helped_by(connect, store, "r2", "Restarted db", "to 10.0.0.7 refused") == first


async def test_only_the_change_that_was_retracted_is_left_out(
    connect: Connect, store: Store
) -> None:
    (first,) = await helped_by(connect, store, "r1", "restarted db", "to 10.0.0.4 refused")
    await connect("keeper").retract(first, ReasonIn(reason="it did not help"))
    assert await helped_by(connect, store, "r2", "restarted db", "to 10.0.0.7 refused") == ()
    assert len(await helped_by(connect, store, "r3", "allowed 500 connections")) == 1
    assert await helped_by(connect, store, "r4", "restarted db", "to 10.0.0.7 refused") == ()
