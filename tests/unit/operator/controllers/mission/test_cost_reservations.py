"""Missions at the same time on one team or cell: together they stay within its limits."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from kais import labels
from kais.agent_results import AgentFailure, AgentUsage, FailureClass
from kais_operator import errors
from kais_operator.controllers.base import Controller
from kais_operator.controllers.cell.observe import cell
from kais_operator.controllers.formation import observe as formation
from kais_operator.planning.agent_tasks import AgentTask, TaskState
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes import services, teams
from tests.fakes.cluster import FakeCluster
from tests.fakes.services import SOLO
from tests.fakes.teams import FORMATION, condition, status
from tests.fakes.world import FakeWorld, fake_world, restarted

MIND = {"provider": "openai", "model": "scripted-1", "systemPrompt": "Work."}
LEAD = ObjectRef("Cell", "demo", "team-lead-0")
NAMES = ("first", "second", "third")
FIRST, SECOND, THIRD = (ObjectRef("Mission", "demo", name) for name in NAMES)


async def serving(budget: Body, *missions: Body, limits: Body | None = None) -> FakeWorld:
    spec = {"mind": MIND, **({"resources": limits} if limits else {})}
    cells = [{"name": name, "spec": spec} for name in ("lead", "critic")]
    declared = {"budget": budget} if budget else {}
    fake = fake_world(teams.team(cells=cells, **declared), *(missions or works()))
    await teams.settle_team(fake)
    for name in ("team-lead-0", "team-critic-0"):
        services.pod(fake, ObjectRef("Deployment", "demo", name), status=services.ready())
    await teams.settle_team(fake)
    return fake


def works(**spec: Any) -> list[Body]:
    return [teams.work(name, **spec) for name in NAMES]


async def passes(fake: FakeWorld, *refs: ObjectRef, count: int = 5) -> None:
    for _ in range(count):
        for ref in refs:
            await teams.pass_(fake, ref)
        fake.clock.advance(1)


def message_of(fake: FakeWorld, ref: ObjectRef) -> str:
    return next(
        delivery.call.message_id
        for delivery in reversed(fake.agents.deliveries)
        if delivery.call.mission == ref
    )


def answer(fake: FakeWorld, ref: ObjectRef, cost: str) -> None:
    usage = AgentUsage(turns=1, cost=Decimal(cost))
    fake.agents.tasks[message_of(fake, ref)] = AgentTask(
        TaskState.COMPLETED, answer="done", usage=usage
    )


def budgets_left(fake: FakeWorld) -> dict[str, str | None]:
    return {each.call.mission.name: each.call.budget_left for each in fake.agents.deliveries}


def reserved(fake: FakeWorld, ref: ObjectRef = FORMATION) -> dict[str, tuple[str, str]]:
    """Return by mission what its run has spent and reserved on the account of an object."""
    text = fake.cluster.read(ref)["metadata"].get("annotations", {}).get(labels.RESERVATIONS)
    runs = json.loads(text)["runs"] if text else []
    return {mission: (spent, rest) for _, _, mission, spent, rest in runs}


LIMITS = [
    pytest.param({"maxCostPerHour": 1.0}, None, "budget.maxCostPerHour", id="hour of the team"),
    pytest.param({"maxTotalCost": 2.0}, None, "the share of budget.maxTotalCost", id="share"),
    pytest.param({}, {"maxTotalCost": 1.0}, "resources.maxTotalCost", id="total of the cell"),
    pytest.param({}, {"maxCostPerHour": 1.0}, "resources.maxCostPerHour", id="hour of the cell"),
]


@pytest.mark.parametrize(("budget", "limits", "name"), LIMITS)
async def test_missions_at_once_do_not_get_the_same_money_twice(
    budget: Body, limits: Body | None, name: str
) -> None:
    fake = await serving(budget, limits=limits)
    await passes(fake, FIRST, SECOND, THIRD)
    assert budgets_left(fake) == {"first": "1"}
    state, reason, message = condition(fake, "Started", SECOND)
    assert (state, reason) == ("False", "BudgetReserved")
    assert name in message

    answer(fake, FIRST, "0.75")
    await passes(fake, FIRST, SECOND, THIRD, count=8)
    assert budgets_left(fake) == {"first": "1", "second": "0.25"}


@pytest.mark.parametrize(
    ("spec", "most"),
    [
        pytest.param({"budget": {"maxCost": 0.75}}, "$0.75", id="budget of its own"),
        pytest.param({}, "all of it, without budget.maxCost", id="no budget"),
    ],
)
async def test_waiting_mission_names_the_limit_its_own_cost_and_what_to_do(
    spec: Body, most: str
) -> None:
    fake = await serving({"maxCostPerHour": 1.0}, *works(**spec))
    await passes(fake, FIRST, SECOND)
    assert condition(fake, "Started", SECOND) == (
        "False",
        "BudgetReserved",
        (
            "budget.maxCostPerHour of Formation/demo/team is $1, and other missions have spent or "
            f"reserved so much that less is left than this mission may cost ({most}); it starts "
            "when they leave enough; "
            "kais.io/reservations of Formation/demo/team lists them; to let more run at the same "
            "time, set budget.maxCost of the missions, or raise the limit"
        ),
    )


async def test_status_of_a_waiting_mission_is_not_written_when_reservations_change() -> None:
    fake = await serving({"maxCostPerHour": 1.0}, *works(budget={"maxCost": 0.5}))
    await passes(fake, FIRST, SECOND, THIRD)
    before = len(fake.cluster.writes)
    answer(fake, FIRST, "0.4")
    await passes(fake, FIRST, SECOND, THIRD)
    assert reserved(fake) == {"second": ("0", "0.5")}
    assert ("status", THIRD) not in fake.cluster.writes[before:]
    assert condition(fake, "Started", THIRD)[1] == "BudgetReserved"


async def test_missions_with_limits_of_their_own_run_at_the_same_time() -> None:
    fake = await serving({"maxCostPerHour": 1.0}, *works(budget={"maxCost": 0.5}))
    await passes(fake, FIRST, SECOND, THIRD)
    assert budgets_left(fake) == {"first": "0.5", "second": "0.5"}
    assert reserved(fake) == {"first": ("0", "0.5"), "second": ("0", "0.5")}


async def test_start_deadline_does_not_run_while_a_mission_waits_for_a_reservation() -> None:
    fake = await serving({"maxCostPerHour": 1.0}, *works(startDeadline="10m"))
    await passes(fake, FIRST, SECOND)
    fake.clock.advance(1200)
    await passes(fake, SECOND)
    assert "outcome" not in status(fake, SECOND)


async def test_mission_without_limits_reserves_nothing() -> None:
    fake = await serving({})
    await passes(fake, FIRST, SECOND)
    assert budgets_left(fake) == {"first": None, "second": None}
    assert reserved(fake) == {}
    assert ("patch", FORMATION) not in fake.cluster.writes


async def test_limit_of_a_mission_alone_needs_no_reservation() -> None:
    fake = await serving({}, *works(budget={"maxCost": 0.5}))
    await passes(fake, FIRST, SECOND)
    assert budgets_left(fake) == {"first": "0.5", "second": "0.5"}
    assert reserved(fake) == {}


async def test_ended_run_releases_its_reservation_after_its_cost_is_counted() -> None:
    fake = await serving({"maxCostPerHour": 1.0})
    await passes(fake, FIRST)
    answer(fake, FIRST, "0.75")
    fake.cluster.writes.clear()
    await passes(fake, FIRST, count=8)
    order = [ref for verb, ref in fake.cluster.writes if verb == "patch"]
    assert order.index(LEAD) < order.index(FORMATION)
    assert reserved(fake) == {}
    assert fake.cluster.read(FIRST)["metadata"]["annotations"][labels.USAGE_COUNTED]


@pytest.mark.parametrize("how", ["abort", "delete"])
async def test_ended_early_run_releases_its_reservation(how: str) -> None:
    fake = await serving({"maxCostPerHour": 1.0})
    await passes(fake, FIRST, SECOND)
    assert list(reserved(fake)) == ["first"]
    if how == "abort":
        fake.cluster.edit(FIRST, {"metadata": {"annotations": {labels.ABORT: "true"}}})
    else:
        fake.cluster.remove(FIRST)
    await passes(fake, FIRST, SECOND, count=10)
    assert list(reserved(fake)) == ["second"]


async def test_reservation_of_a_mission_that_vanished_is_released() -> None:
    fake = await serving({"maxCostPerHour": 1.0})
    await passes(fake, FIRST, SECOND)
    fake.cluster.vanish(FIRST)
    await passes(fake, SECOND)
    assert budgets_left(fake) == {"first": "1", "second": "1"}
    assert list(reserved(fake)) == ["second"]


@pytest.mark.parametrize(
    ("budget", "limits", "account", "controller"),
    [
        pytest.param({"maxCostPerHour": 1.0}, None, FORMATION, formation.CONTROLLER, id="team"),
        pytest.param(None, {"maxTotalCost": 1.0}, SOLO, cell.CONTROLLER, id="cell alone"),
    ],
)
async def test_reservation_of_a_mission_that_vanished_needs_no_other_mission_to_end(
    budget: Body | None, limits: Body | None, account: ObjectRef, controller: Controller
) -> None:
    if budget is not None:
        fake = await serving(budget)
    else:
        solo = teams.thing("Cell", "solo", spec={"mind": MIND, "resources": limits})
        fake = await services.serving(solo, teams.work("first", formationRef=None, cellRef="solo"))
    await passes(fake, FIRST)
    assert list(reserved(fake, account)) == ["first"]
    await fake.settle(controller, account)
    assert list(reserved(fake, account)) == ["first"]
    fake.cluster.vanish(FIRST)
    await fake.settle(controller, account)
    assert reserved(fake, account) == {}


@pytest.mark.parametrize(
    ("account", "controller", "child"),
    [
        pytest.param(
            FORMATION, formation.CONTROLLER, ObjectRef("Cell", "demo", "team-critic-0"), id="team"
        ),
        pytest.param(SOLO, cell.CONTROLLER, ObjectRef("Deployment", "demo", "solo"), id="cell"),
    ],
)
async def test_refused_release_of_a_reservation_stops_nothing_else(
    account: ObjectRef, controller: Controller, child: ObjectRef
) -> None:
    solo = teams.thing("Cell", "solo", spec={"mind": MIND, "resources": {"maxTotalCost": 1.0}})
    mission = teams.work("first", formationRef=None, cellRef="solo")
    is_team = account == FORMATION
    fake = (
        await serving({"maxCostPerHour": 1.0}) if is_team else await services.serving(solo, mission)
    )
    await passes(fake, FIRST)
    fake.cluster.vanish(FIRST)
    fake.cluster.vanish(child)
    for _ in range(3):
        fake.cluster.fail("patch", errors.Forbidden("no patch"), kind=account.kind)
        with pytest.raises(errors.Forbidden):
            await fake.step(controller, account)
    assert list(reserved(fake, account)) == ["first"]
    assert child in fake.cluster.refs()
    await fake.settle(controller, account)
    assert reserved(fake, account) == {}


async def test_reservation_of_an_earlier_run_is_released() -> None:
    fake = await serving({"maxCostPerHour": 1.0})
    await passes(fake, FIRST, SECOND)
    fake.cluster.edit(FIRST, {"metadata": {"annotations": {labels.RUN_ID: "another"}}})
    await passes(fake, SECOND)
    assert list(reserved(fake)) == ["second"]


async def test_reservation_that_a_rerun_left_behind_is_not_that_of_the_new_run() -> None:
    fake = await serving({"maxCostPerHour": 1.0})
    await passes(fake, FIRST)
    answer(fake, FIRST, "0.25")
    await passes(fake, FIRST, count=10)
    fake.cluster.edit(FIRST, {"metadata": {"annotations": {labels.RERUN: "2"}}})
    await passes(fake, FIRST, count=10)
    assert budgets_left(fake) == {"first": "0.75"}
    assert reserved(fake) == {"first": ("0", "0.75")}


async def test_operator_killed_between_reservation_and_message_sends_once() -> None:
    fake = await serving({"maxCostPerHour": 1.0})
    while not reserved(fake):
        await teams.pass_(fake, FIRST)
    assert not fake.agents.deliveries
    fake = restarted(fake)
    await passes(fake, SECOND)
    assert not fake.agents.deliveries
    await passes(fake, FIRST, SECOND)
    assert budgets_left(fake) == {"first": "1"}
    assert len(fake.agents.deliveries) == 1


async def test_operator_killed_between_count_and_release_counts_once_and_releases() -> None:
    fake = await serving({"maxCostPerHour": 1.0})
    await passes(fake, FIRST)
    answer(fake, FIRST, "0.75")
    while labels.CELL_USAGE not in fake.cluster.read(LEAD)["metadata"].get("annotations", {}):
        await teams.pass_(fake, FIRST)
    assert list(reserved(fake)) == ["first"]
    fake = restarted(fake)
    await passes(fake, FIRST, SECOND, count=10)
    assert budgets_left(fake) == {"first": "1", "second": "0.25"}
    usage = json.loads(fake.cluster.read(LEAD)["metadata"]["annotations"][labels.CELL_USAGE])
    assert usage["cost"] == "0.75"


async def test_run_that_has_ended_holds_its_reservation_until_its_cost_is_counted() -> None:
    fake = await serving({"maxCostPerHour": 1.0})
    await passes(fake, FIRST)
    answer(fake, FIRST, "0.75")
    while labels.OUTCOME not in fake.cluster.read(FIRST)["metadata"]["annotations"]:
        await teams.pass_(fake, FIRST)
    await passes(fake, SECOND)
    assert budgets_left(fake) == {"first": "1"}
    await passes(fake, FIRST, SECOND)
    assert budgets_left(fake) == {"first": "1", "second": "0.25"}


class LateCells:
    """A Cluster whose cache has the cells as they were at a moment; `fresh` reads are current."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self._late = {ref: cluster.read(ref) for ref in cluster.refs("Cell")}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def get(self, ref: ObjectRef, *, fresh: bool = False) -> Body | None:
        is_late = ref in self._late and not fresh
        return self._late[ref] if is_late else await self._cluster.get(ref, fresh=fresh)

    async def list(
        self, kind: str, namespace: str | None, *, labels: str = "", fresh: bool = False
    ) -> Any:
        if kind == "Cell" and not fresh:
            return list(self._late.values())
        return await self._cluster.list(kind, namespace, labels=labels, fresh=fresh)


@pytest.mark.parametrize("reference", [{}, {"formationRef": None, "cellRef": "team-lead-0"}])
async def test_cost_that_the_cache_lacks_is_read_before_money_is_reserved(reference: Body) -> None:
    fake = await serving({"maxCostPerHour": 1.0}, *works(**reference))
    late = LateCells(fake.cluster)
    await passes(fake, FIRST)
    answer(fake, FIRST, "0.75")
    await passes(fake, FIRST, count=8)
    fake = replace(fake, world=replace(fake.world, cluster=late))
    await passes(fake, SECOND)
    assert reserved(fake) == {"second": ("0", "0.25")}
    assert "second" not in budgets_left(fake) or budgets_left(fake)["second"] == "0.25"


async def test_conflict_decides_anew() -> None:
    fake = await serving({"maxCostPerHour": 1.0})
    await teams.pass_(fake, FIRST)
    fake.cluster.fail("patch", errors.Conflict("changed"), kind="Formation")
    with pytest.raises(errors.Conflict):
        await passes(fake, FIRST)
    assert not fake.agents.deliveries
    await passes(fake, SECOND)
    await passes(fake, FIRST)
    assert budgets_left(fake) == {"second": "1"}


async def test_run_that_waits_for_a_person_keeps_only_what_it_has_spent() -> None:
    review = {"review": {"enabled": True, "reviewer": "ops", "criteria": "right"}}
    fake = await serving({"maxCostPerHour": 1.0}, *works(completion=review))
    await passes(fake, FIRST, SECOND)
    answer(fake, FIRST, "0.25")
    await passes(fake, FIRST, SECOND)
    assert reserved(fake) == {"first": ("0.25", "0"), "second": ("0", "0.75")}
    assert budgets_left(fake) == {"first": "1", "second": "0.75"}


async def test_next_attempt_uses_what_the_reservation_of_its_run_has_left() -> None:
    fake = await serving({"maxCostPerHour": 1.0}, *works(completion={"maxAttempts": 2}))
    await passes(fake, FIRST, SECOND)
    fake.agents.tasks[message_of(fake, FIRST)] = AgentTask(
        TaskState.FAILED,
        failure=AgentFailure(FailureClass.MODEL_UNAVAILABLE, "down"),
        usage=AgentUsage(turns=1, cost=Decimal("0.25")),
    )
    await passes(fake, FIRST, SECOND, count=12)
    left = [each.call.budget_left for each in fake.agents.deliveries]
    assert left == ["1", "0.75"]
    assert {each.call.mission for each in fake.agents.deliveries} == {FIRST}


async def test_suspended_run_keeps_only_what_it_has_spent() -> None:
    fake = await serving({"maxCostPerHour": 1.0}, *works(completion={"maxAttempts": 2}))
    await passes(fake, FIRST, SECOND)
    fake.cluster.edit(FIRST, {"metadata": {"annotations": {labels.RECONCILE: "suspended"}}})
    fake.agents.tasks[message_of(fake, FIRST)] = AgentTask(
        TaskState.FAILED,
        failure=AgentFailure(FailureClass.MODEL_UNAVAILABLE, "down"),
        usage=AgentUsage(turns=1, cost=Decimal("0.25")),
    )
    await passes(fake, FIRST, SECOND, count=12)
    assert reserved(fake) == {"first": ("0.25", "0"), "second": ("0", "0.75")}


@pytest.mark.parametrize("text", [None, "{", '{"uid": "another", "runs": []}', "[]"])
async def test_reservation_of_running_work_that_was_edited_by_hand_returns(
    text: str | None,
) -> None:
    fake = await serving({"maxCostPerHour": 1.0})
    await passes(fake, FIRST)
    fake.cluster.edit(FORMATION, {"metadata": {"annotations": {labels.RESERVATIONS: text}}})
    await passes(fake, FIRST, SECOND)
    assert reserved(fake) == {"first": ("0", "1")}
    assert budgets_left(fake) == {"first": "1"}


async def test_copy_of_a_formation_has_no_reservations() -> None:
    fake = await serving({"maxCostPerHour": 1.0})
    await passes(fake, FIRST)
    live = fake.cluster.read(FORMATION)
    fake.cluster.edit(FORMATION, {"metadata": {"uid": "another"}})
    assert live["metadata"]["annotations"][labels.RESERVATIONS]
    fake.cluster.vanish(FIRST)
    for ref in fake.cluster.refs("Cell"):
        owner = {**fake.cluster.read(ref)["metadata"]["ownerReferences"][0], "uid": "another"}
        fake.cluster.edit(ref, {"metadata": {"ownerReferences": [owner]}})
    await passes(fake, SECOND)
    assert list(reserved(fake)) == ["second"]


async def test_reviewing_cell_and_worker_share_the_hour_of_the_team() -> None:
    review = {"review": {"enabled": True, "reviewer": "critic", "criteria": "right"}}
    fake = await serving({"maxCostPerHour": 1.0}, *works(completion=review))
    await passes(fake, FIRST, SECOND)
    answer(fake, FIRST, "0.25")
    await passes(fake, FIRST, SECOND)
    left = [each.call.budget_left for each in fake.agents.deliveries]
    assert left == ["1", "0.75"]
    assert "second" not in budgets_left(fake)
    runs = json.loads(fake.cluster.read(FORMATION)["metadata"]["annotations"][labels.RESERVATIONS])
    assert [row[1:] for row in runs["runs"]] == [
        ["team-critic-0", "first", "0", "0.75"],
        ["team-lead-0", "first", "0.25", "0"],
    ]


SUSPEND = {"metadata": {"annotations": {labels.RECONCILE: "suspended"}}}
RESUME = {"metadata": {"annotations": {labels.RECONCILE: None}}}


def fail(fake: FakeWorld, ref: ObjectRef, cost: str) -> None:
    fake.agents.tasks[message_of(fake, ref)] = AgentTask(
        TaskState.FAILED,
        failure=AgentFailure(FailureClass.MODEL_UNAVAILABLE, "down"),
        usage=AgentUsage(turns=1, cost=Decimal(cost)),
    )


async def test_runs_do_not_wait_for_what_each_other_has_spent() -> None:
    fake = await serving(
        {"maxCostPerHour": 1.0}, *works(completion={"maxAttempts": 3, "timeout": "20h"})
    )
    for ref in (FIRST, SECOND):
        await passes(fake, FIRST, SECOND)
        fake.cluster.edit(ref, SUSPEND)
        fail(fake, ref, "0.5")
        await passes(fake, FIRST, SECOND, count=12)
    assert reserved(fake) == {"first": ("0.5", "0"), "second": ("0.5", "0")}
    for ref in (FIRST, SECOND):
        fake.cluster.edit(ref, RESUME)
    await passes(fake, FIRST, SECOND, count=12)
    assert [each.call.budget_left for each in fake.agents.deliveries[-2:]] == ["0", "0"]


async def test_run_that_is_counted_and_not_yet_released_counts_once() -> None:
    fake = await serving({"maxTotalCost": 2.0})
    await passes(fake, FIRST)
    fake.cluster.edit(FIRST, SUSPEND)
    fail(fake, FIRST, "0.4")
    await passes(fake, FIRST, count=12)
    fake.cluster.edit(FIRST, {"metadata": {"annotations": {labels.ABORT: "true"}}})
    while labels.CELL_USAGE not in fake.cluster.read(LEAD)["metadata"].get("annotations", {}):
        await teams.pass_(fake, FIRST)
    assert reserved(fake) == {"first": ("0.4", "0")}
    await passes(fake, SECOND)
    assert budgets_left(fake) == {"first": "1", "second": "0.6"}


async def test_finished_work_holds_its_reservation_while_the_pod_of_its_reviewer_is_replaced() -> (
    None
):
    review = {"enabled": True, "reviewer": "critic", "criteria": "right"}
    fake = await serving({"maxCostPerHour": 1.0}, *works(completion={"review": review}))
    await passes(fake, FIRST, SECOND)
    (pod,) = [ref for ref in fake.cluster.refs("Pod") if "critic" in ref.name]
    fake.cluster.vanish(pod)
    answer(fake, FIRST, "0.25")
    await passes(fake, FIRST, SECOND)
    critic = ObjectRef("Deployment", "demo", "team-critic-0")
    services.pod(fake, critic, status=services.ready())
    await passes(fake, FIRST, SECOND)
    assert [each.call.mission.name for each in fake.agents.deliveries] == ["first", "first"]
    assert fake.agents.deliveries[-1].call.budget_left == "0.75"


@pytest.mark.parametrize("cost", ["1e-99999999", "0E-99999999", "NaN", "-1", "x", "1e99"])
async def test_cost_that_a_person_wrote_is_no_reason_to_fail(cost: str) -> None:
    fake = await serving({"maxCostPerHour": 1.0})
    uid = fake.cluster.read(FORMATION)["metadata"]["uid"]
    text = json.dumps({"uid": uid, "runs": [["x", "team-lead-0", "gone", cost, "0"]]})
    fake.cluster.edit(FORMATION, {"metadata": {"annotations": {labels.RESERVATIONS: text}}})
    await passes(fake, FIRST)
    assert budgets_left(fake) == {"first": "1"}
    assert reserved(fake) == {"first": ("0", "1")}
