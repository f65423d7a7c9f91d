"""Budgets of a team: its hour, which pauses it, and the shares of its cells."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from kais.agent_results import AgentFailure, AgentUsage, FailureClass
from kais_operator.controllers.cell.observe import cell
from kais_operator.controllers.formation import observe as formation
from kais_operator.planning.agent_tasks import AgentTask, TaskState
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes import services, teams
from tests.fakes.teams import FORMATION, condition, status
from tests.fakes.world import FakeWorld, fake_world

MIND = {"provider": "openai", "model": "scripted-1", "systemPrompt": "Work."}
FIRST, SECOND = ObjectRef("Mission", "demo", "first"), ObjectRef("Mission", "demo", "second")


async def serving(budget: Body, *missions: Body, limits: Body | None = None) -> FakeWorld:
    spec = {"mind": MIND, **({"resources": limits} if limits else {})}
    cells = [{"name": name, "spec": spec} for name in ("lead", "critic")]
    fake = fake_world(teams.team(cells=cells, budget=budget), *missions)
    await teams.settle_team(fake)
    for name in ("team-lead-0", "team-critic-0"):
        services.pod(fake, ObjectRef("Deployment", "demo", name), status=services.ready())
    await teams.settle_team(fake)
    return fake


async def passes(fake: FakeWorld, ref: ObjectRef, count: int = 5) -> None:
    for _ in range(count):
        await teams.pass_(fake, ref)
        fake.clock.advance(1)


async def run(fake: FakeWorld, ref: ObjectRef, cost: str) -> None:
    """Let the run of a mission end with a cost."""
    await passes(fake, ref)
    message = fake.agents.deliveries[-1].call.message_id
    usage = AgentUsage(turns=1, cost=Decimal(cost))
    fake.agents.tasks[message] = AgentTask(TaskState.COMPLETED, answer="done", usage=usage)
    await passes(fake, ref, 8)
    assert status(fake, ref)["outcome"] == "Succeeded"
    for each in fake.cluster.refs("Cell"):
        await fake.settle(cell.CONTROLLER, each)
    await fake.settle(formation.CONTROLLER, FORMATION)


def budgets_left(fake: FakeWorld) -> list[str | None]:
    return [each.call.budget_left for each in fake.agents.deliveries]


async def test_team_over_its_hour_is_paused_says_until_when_and_goes_on_after() -> None:
    fake = await serving({"maxCostPerHour": 1.0}, teams.work("first"), teams.work("second"))
    await run(fake, FIRST, "1.25")
    paused = status(fake, FORMATION)
    assert paused["phase"] == "Paused"
    until = paused["pausedUntil"]
    assert condition(fake, "Ready", FORMATION) == (
        "False",
        "Paused",
        (
            f"no attempt starts until {until}: the team has spent budget.maxCostPerHour "
            "($1.0) within the last hour"
        ),
    )
    await passes(fake, SECOND)
    assert condition(fake, "Started", SECOND) == (
        "False",
        "Paused",
        (
            f"Formation/demo/team is paused until {until}: it has spent budget.maxCostPerHour "
            "($1.0) within the last hour"
        ),
    )
    assert len(fake.agents.deliveries) == 1

    fake.clock.advance(3600)
    await fake.settle(formation.CONTROLLER, FORMATION)
    assert status(fake, FORMATION)["phase"] == "Running"
    assert "pausedUntil" not in status(fake, FORMATION)
    await passes(fake, SECOND)
    assert budgets_left(fake) == ["1", "1"]


async def test_run_that_meets_the_hour_of_its_team_ends_and_names_the_hour() -> None:
    first = teams.work("first", budget={"maxCost": 5})
    fake = await serving({"maxCostPerHour": 1.0, "maxTotalCost": 9}, first, teams.work("second"))
    await run(fake, FIRST, "0.75")
    await passes(fake, SECOND)
    message = "the budget of the run is $0.25, of which $0.2 is spent"
    fake.agents.tasks[fake.agents.deliveries[-1].call.message_id] = AgentTask(
        TaskState.FAILED,
        failure=AgentFailure(FailureClass.BUDGET, message),
        usage=AgentUsage(turns=1, cost=Decimal("0.2")),
    )
    await passes(fake, SECOND, 8)
    assert (status(fake, SECOND)["outcome"], status(fake, SECOND)["attempt"]) == (
        "BudgetExceeded",
        1,
    )
    assert condition(fake, "Succeeded", SECOND)[2] == (
        f"attempt 1: the agent gave no answer (budget): {message}; "
        "budget.maxCostPerHour of Formation/demo/team had $0.25 left for this run; costs leave it "
        "an hour after their run"
    )


@pytest.mark.parametrize(
    ("mission_budget", "limits", "expected"),
    [
        (0.5, {}, "budget.maxCost of the mission had $0.5 left for this run"),
        (None, {}, "the share of budget.maxTotalCost of Formation/demo/team had $4.5 left for"),
        (None, {"maxTotalCost": 2}, "resources.maxTotalCost of Cell/demo/team-lead-0 had $2 left"),
    ],
)
async def test_run_without_money_names_the_limit_that_left_least(
    mission_budget: float | None, limits: Body, expected: str
) -> None:
    budget = {"budget": {"maxCost": mission_budget}} if mission_budget else {}
    fake = await serving({"maxTotalCost": 9}, teams.work("first", **budget), limits=limits)
    await passes(fake, FIRST)
    fake.agents.tasks[fake.agents.deliveries[-1].call.message_id] = AgentTask(
        TaskState.FAILED, failure=AgentFailure(FailureClass.BUDGET, "no more")
    )
    await passes(fake, FIRST, 8)
    assert status(fake, FIRST)["outcome"] == "BudgetExceeded"
    assert expected in condition(fake, "Succeeded", FIRST)[2]


async def test_mission_has_a_whole_start_deadline_after_the_pause_of_its_team() -> None:
    fake = await serving({"maxCostPerHour": 1.0}, teams.work("first"), teams.work("second"))
    await run(fake, FIRST, "1.25")
    await passes(fake, SECOND)
    fake.clock.advance(3600)
    critic = ObjectRef("Cell", "demo", "team-critic-0")
    reported = fake.cluster.read(critic)["status"]
    for each in reported["conditions"]:
        if each["type"] == "Ready":
            each.update(status="False", reason="WaitingForPods", message="no pod yet")
    fake.cluster.set_status(critic, reported)
    await passes(fake, SECOND, 2)
    assert condition(fake, "Started", SECOND)[:2] == ("False", "WaitingForCells")
    fake.clock.advance(300)
    await passes(fake, SECOND, 2)
    assert status(fake, SECOND)["outcome"] == "InfrastructureFailed"


async def test_start_deadline_does_not_run_while_the_team_is_paused() -> None:
    second = teams.work("second", startDeadline="10m")
    fake = await serving({"maxCostPerHour": 1.0}, teams.work("first"), second)
    await run(fake, FIRST, "1.0")
    await passes(fake, SECOND)
    fake.clock.advance(1800)
    await passes(fake, SECOND)
    assert "outcome" not in status(fake, SECOND)


async def test_next_run_of_the_hour_gets_what_the_whole_team_has_left() -> None:
    fake = await serving(
        {"maxCostPerHour": 1.0},
        teams.work("first", entrypoint={"cell": "critic"}),
        teams.work("second"),
    )
    await run(fake, FIRST, "0.75")
    assert status(fake, FORMATION)["phase"] == "Running"
    await passes(fake, SECOND)
    assert budgets_left(fake) == ["1", "0.25"]


async def test_operator_looks_again_when_the_pause_ends() -> None:
    fake = await serving({"maxCostPerHour": 1.0}, teams.work("first"))
    await run(fake, FIRST, "1.25")
    plan = await fake.step(formation.CONTROLLER, FORMATION)
    assert plan is not None
    assert plan.requeue_after is not None
    assert timedelta(minutes=55) < plan.requeue_after <= timedelta(hours=1)


@pytest.mark.parametrize(
    ("allocation", "expected"),
    [
        (None, "0.5"),
        ({"lead": "75%"}, "0.75"),
        ({"critic": "75%"}, "0.25"),
        ({"lead": "12.5%", "critic": "0%"}, "0.125"),
    ],
)
async def test_share_of_a_cell_follows_from_the_allocation(allocation: Any, expected: str) -> None:
    budget = {"maxTotalCost": 1.0, **({"allocation": allocation} if allocation else {})}
    fake = await serving(budget, teams.work("first"))
    await passes(fake, FIRST)
    assert budgets_left(fake) == [expected]


@pytest.mark.parametrize(
    ("allocation", "problem"),
    [
        ({"lead": "60%", "critic": "60%"}, "the shares add up to 120%, more than 100%"),
        ({"ghost": "10%"}, '"ghost" is not a cell of this formation'),
        ({"lead": "much"}, '"much" is no share such as 40%'),
    ],
)
async def test_allocation_that_cannot_be_used_is_a_condition_and_shares_are_equal(
    allocation: Body, problem: str
) -> None:
    fake = await serving({"maxTotalCost": 1.0, "allocation": allocation}, teams.work("first"))
    state, reason, message = condition(fake, "Applied", FORMATION)
    assert (state, reason) == ("False", "AllocationInvalid")
    assert problem in message
    await passes(fake, FIRST)
    assert budgets_left(fake) == ["0.5"]
