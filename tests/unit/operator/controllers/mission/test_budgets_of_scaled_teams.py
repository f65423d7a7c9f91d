"""Budgets of a team whose cells are removed and created again: what is spent stays spent."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kais import labels
from kais.agent_results import AgentUsage
from kais_operator.controllers.cell.observe import cell
from kais_operator.controllers.formation import observe as formation
from kais_operator.planning.agent_tasks import AgentTask, TaskState
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes import services, teams
from tests.fakes.teams import FORMATION, condition, status
from tests.fakes.world import FakeWorld, fake_world

MIND = {"provider": "openai", "model": "scripted-1", "systemPrompt": "Work."}
FIRST, SECOND, THIRD = (ObjectRef("Mission", "demo", name) for name in ("first", "second", "third"))
LEADS = (ObjectRef("Cell", "demo", "team-lead-0"), ObjectRef("Cell", "demo", "team-lead-1"))


def templates(**replicas: int) -> list[Body]:
    return [
        {"name": name, "replicas": count, "spec": {"mind": MIND}}
        for name, count in replicas.items()
        if count
    ]


def for_cell(name: str, cell_name: str, **spec: Any) -> Body:
    return teams.work(name, entrypoint={"cell": cell_name}, **spec)


async def settle(fake: FakeWorld) -> None:
    await fake.settle(formation.CONTROLLER, FORMATION)
    fake.cluster.collect_garbage()
    for each in fake.cluster.refs("Cell"):
        await fake.settle(cell.CONTROLLER, each)
    for each in fake.cluster.refs("Deployment"):
        services.pod(fake, each, status=services.ready())
    for each in fake.cluster.refs("Cell"):
        await fake.settle(cell.CONTROLLER, each)
    await fake.settle(formation.CONTROLLER, FORMATION)


async def serving(budget: Body, *missions: Body, **replicas: int) -> FakeWorld:
    cells = templates(**(replicas or {"lead": 2}))
    fake = fake_world(teams.team(cells=cells, budget=budget), *missions)
    await settle(fake)
    return fake


async def scale(fake: FakeWorld, **replicas: int) -> None:
    fake.cluster.edit(FORMATION, {"spec": {"cells": templates(**replicas)}})
    await settle(fake)


async def passes(fake: FakeWorld, ref: ObjectRef, count: int = 5) -> None:
    for _ in range(count):
        await teams.pass_(fake, ref)
        fake.clock.advance(1)


def answer(fake: FakeWorld, ref: ObjectRef, cost: str) -> None:
    sent = [each.call for each in fake.agents.deliveries if each.call.mission == ref]
    usage = AgentUsage(turns=1, cost=Decimal(cost))
    fake.agents.tasks[sent[-1].message_id] = AgentTask(
        TaskState.COMPLETED, answer="done", usage=usage
    )


async def run(fake: FakeWorld, ref: ObjectRef, cost: str) -> None:
    """Let the run of a mission end with a cost."""
    await passes(fake, ref)
    answer(fake, ref, cost)
    await passes(fake, ref, 8)
    assert status(fake, ref)["outcome"] == "Succeeded"
    await settle(fake)


def budget_left(fake: FakeWorld, ref: ObjectRef) -> str | None:
    calls = [each.call for each in fake.agents.deliveries if each.call.mission == ref]
    return calls[-1].budget_left if calls else "no message was sent"


async def test_scaling_a_team_down_gives_no_cell_what_the_removed_one_has_spent() -> None:
    missions = (for_cell("first", "lead-0"), for_cell("second", "lead-1"), teams.work("third"))
    fake = await serving({"maxTotalCost": 10}, *missions)
    await run(fake, FIRST, "4")
    await run(fake, SECOND, "5")
    await scale(fake, lead=1)
    assert fake.cluster.refs("Cell") == [LEADS[0]]
    await passes(fake, THIRD)
    assert budget_left(fake, THIRD) == "1"


async def test_renaming_a_template_gives_its_cells_no_new_budget() -> None:
    missions = (for_cell("first", "lead-0"), teams.work("second"))
    fake = await serving({"maxTotalCost": 10}, *missions, lead=1)
    await run(fake, FIRST, "7.5")
    await scale(fake, boss=1)
    await passes(fake, SECOND)
    assert budget_left(fake, SECOND) == "2.5"


async def test_scaling_down_does_not_lift_the_pause_of_the_hour() -> None:
    missions = (for_cell("first", "lead-1"), teams.work("second"))
    fake = await serving({"maxCostPerHour": 1.0}, *missions)
    await run(fake, FIRST, "1.25")
    until = status(fake, FORMATION)["pausedUntil"]
    await scale(fake, lead=1)
    assert (status(fake, FORMATION)["phase"], status(fake, FORMATION)["pausedUntil"]) == (
        "Paused",
        until,
    )
    await passes(fake, SECOND)
    assert condition(fake, "Started", SECOND)[1] == "Paused"

    fake.clock.advance(3600)
    await settle(fake)
    assert status(fake, FORMATION)["phase"] == "Running"
    await passes(fake, SECOND)
    assert budget_left(fake, SECOND) == "1"


async def test_cost_of_a_team_still_contains_its_removed_cells() -> None:
    fake = await serving({"maxTotalCost": 10}, for_cell("first", "lead-1"))
    await run(fake, FIRST, "4")
    await scale(fake, lead=1)
    assert status(fake, FORMATION)["totalCost"] == 4


async def test_cell_that_is_created_again_has_spent_nothing_and_its_team_has() -> None:
    missions = (for_cell("first", "lead-1"), for_cell("second", "lead-1"))
    fake = await serving({"maxTotalCost": 10}, *missions)
    await run(fake, FIRST, "4")
    await scale(fake, lead=1)
    await scale(fake, lead=2)
    assert labels.CELL_USAGE not in fake.cluster.read(LEADS[1])["metadata"].get("annotations", {})
    assert status(fake, FORMATION)["totalCost"] == 4
    await passes(fake, SECOND)
    assert budget_left(fake, SECOND) == "3"


async def test_cell_that_joins_a_team_without_money_gets_none() -> None:
    missions = (for_cell("first", "lead-0"), for_cell("second", "lead-1"))
    fake = await serving({"maxTotalCost": 10}, *missions, lead=1)
    await run(fake, FIRST, "10")
    await scale(fake, lead=2)
    await passes(fake, SECOND)
    assert budget_left(fake, SECOND) == "0"


async def test_mission_of_one_cell_is_limited_by_what_the_whole_team_has_spent() -> None:
    second = teams.work("second", formationRef=None, cellRef="team-lead-1")
    fake = await serving({"maxTotalCost": 10}, for_cell("first", "lead-0"), second, lead=1)
    await run(fake, FIRST, "8")
    await scale(fake, lead=2)
    await passes(fake, SECOND)
    assert budget_left(fake, SECOND) == "2"


async def test_run_whose_cell_is_removed_while_it_works_counts_once_for_its_team() -> None:
    fake = await serving({"maxTotalCost": 10}, for_cell("first", "lead-1"))
    await passes(fake, FIRST)
    answer(fake, FIRST, "3")
    while labels.OUTCOME not in fake.cluster.read(FIRST)["metadata"]["annotations"]:
        await teams.pass_(fake, FIRST)
    await scale(fake, lead=1)
    await passes(fake, FIRST, 8)
    await settle(fake)
    assert status(fake, FORMATION)["totalCost"] == 3
    annotations = fake.cluster.read(FORMATION)["metadata"]["annotations"]
    assert labels.RESERVATIONS not in annotations
    assert labels.USAGE_COUNTED in fake.cluster.read(FIRST)["metadata"]["annotations"]


async def test_run_that_was_counted_before_its_cell_was_removed_counts_no_second_time() -> None:
    fake = await serving({"maxTotalCost": 10}, for_cell("first", "lead-1"))
    await passes(fake, FIRST)
    answer(fake, FIRST, "3")
    while labels.CELL_USAGE not in fake.cluster.read(LEADS[1])["metadata"].get("annotations", {}):
        await teams.pass_(fake, FIRST)
    assert labels.USAGE_COUNTED not in fake.cluster.read(FIRST)["metadata"]["annotations"]
    await scale(fake, lead=1)
    await passes(fake, FIRST, 8)
    await settle(fake)
    assert status(fake, FORMATION)["totalCost"] == 3


async def passes_until(
    fake: FakeWorld, ref: ObjectRef, subject: ObjectRef, annotation: str
) -> None:
    """Reconcile a mission until an object has an annotation."""
    for _ in range(10):
        if annotation in fake.cluster.read(subject)["metadata"].get("annotations", {}):
            return
        await teams.pass_(fake, ref)
    raise AssertionError(f"{subject} has no {annotation}")


@pytest.mark.parametrize("removal", [{"boss": 1}, {"lead": 1}])
async def test_run_whose_cell_is_replaced_between_count_and_mark_counts_once(
    removal: dict[str, int],
) -> None:
    """By renaming its template, or by scaling down and up again."""
    is_rename = "boss" in removal
    work = teams.work("first") if is_rename else for_cell("first", "lead-1")
    fake = await serving({"maxTotalCost": 10}, work, lead=1 if is_rename else 2)
    await passes(fake, FIRST)
    answer(fake, FIRST, "3")
    await passes_until(fake, FIRST, LEADS[0 if is_rename else 1], labels.CELL_USAGE)
    assert labels.USAGE_COUNTED not in fake.cluster.read(FIRST)["metadata"]["annotations"]
    await scale(fake, **removal)
    if not is_rename:
        await scale(fake, lead=2)
    await passes(fake, FIRST, 8)
    await settle(fake)
    assert labels.USAGE_COUNTED in fake.cluster.read(FIRST)["metadata"]["annotations"]
    assert status(fake, FORMATION)["totalCost"] == 3


async def test_run_counted_on_its_team_is_not_counted_on_the_cell_that_comes_back() -> None:
    fake = await serving({"maxTotalCost": 10}, for_cell("first", "lead-1"))
    await passes(fake, FIRST)
    answer(fake, FIRST, "3")
    await passes_until(fake, FIRST, FIRST, labels.OUTCOME)
    await scale(fake, lead=1)
    await passes_until(fake, FIRST, FORMATION, labels.REMOVED_USAGE)
    await scale(fake, lead=2)
    await passes(fake, FIRST, 8)
    await settle(fake)
    assert status(fake, FORMATION)["totalCost"] == 3


def spend(fake: FakeWorld, ref: ObjectRef, cost: int, run_id: str) -> None:
    """Add a run to what a cell has cost, as the controller of missions does."""
    annotations = fake.cluster.read(ref)["metadata"].get("annotations", {})
    usage = json.loads(annotations.get(labels.CELL_USAGE, '{"cost": "0", "runs": []}'))
    entry = [run_id, fake.clock.now().isoformat(), str(cost)]
    changed = {"cost": str(int(usage["cost"]) + cost), "tokens": 1, "priced": True}
    text = json.dumps({**changed, "runs": [*usage["runs"], entry]})
    fake.cluster.edit(ref, {"metadata": {"annotations": {labels.CELL_USAGE: text}}})


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3)), max_size=6))
def test_counted_cost_of_a_team_never_shrinks_however_it_is_scaled(
    steps: list[tuple[int, int]],
) -> None:
    async def play() -> None:
        fake = fake_world(teams.team(cells=templates(lead=1, scout=1)))
        await fake.settle(formation.CONTROLLER, FORMATION)
        spent = 0
        for number, (leads, scouts) in enumerate(steps):
            for ref in fake.cluster.refs("Cell"):
                spend(fake, ref, number + 1, f"run-{number}-{ref.name}")
                spent += number + 1
            cells = templates(lead=leads, scout=scouts)
            fake.cluster.edit(FORMATION, {"spec": {"cells": cells}})
            await fake.settle(formation.CONTROLLER, FORMATION)
            assert status(fake, FORMATION).get("totalCost", 0) == spent

    asyncio.run(play())


@pytest.mark.parametrize("limit", ["maxTotalCost", "maxCostPerHour"])
async def test_scaling_up_and_down_again_and_again_yields_no_money(limit: str) -> None:
    names = [f"work-{number}" for number in range(4)]
    fake = await serving({limit: 8}, *(for_cell(name, "lead-1") for name in names))
    for name, cost in zip(names, ("4", "2", "1", "0.5"), strict=True):
        ref = ObjectRef("Mission", "demo", name)
        await passes(fake, ref)
        assert Decimal(budget_left(fake, ref) or "0") >= Decimal(cost)
        await run(fake, ref, cost)
        await scale(fake, lead=1)
        await scale(fake, lead=2)
    assert status(fake, FORMATION)["totalCost"] == 7.5
