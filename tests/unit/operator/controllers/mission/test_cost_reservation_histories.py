"""Random histories of missions that share limits: whatever is killed, no limit is exceeded.

Reconciles of several missions overlap: each observes and decides, and writes at a later step.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kais import labels
from kais.agent_results import AgentFailure, AgentUsage, FailureClass
from kais_operator import errors
from kais_operator.apply import executor
from kais_operator.controllers.mission.observe import mission as missions
from kais_operator.planning.agent_tasks import ENDED, AgentTask, TaskState
from kais_operator.planning.plan import Body, ObjectRef, Plan
from tests.fakes import services, teams
from tests.fakes.teams import FORMATION
from tests.fakes.world import FakeWorld, fake_world, restarted

MIND = {"provider": "openai", "model": "scripted-1", "systemPrompt": "Work."}
CELLS = ("team-lead-0", "team-critic-0")
SHARE, PER_HOUR, OF_CELL = Decimal("1.5"), Decimal(2), Decimal(1)
REFS = tuple(ObjectRef("Mission", "demo", name) for name in ("a", "b", "c", "d"))
ROUNDS = 60
VERBS = (
    ("observe",) * 4 + ("write",) * 4 + ("pass",) * 14 + ("answer",) * 4 + ("report",)
    + ("fail", "fail", "kill", "abort", "delete", "vanish", "suspend", "resume", "rerun", "wait")
)  # fmt: skip
STEP = st.tuples(st.sampled_from(VERBS), st.integers(0, 3), st.integers(0, 4))
HISTORY = st.lists(STEP, min_size=30, max_size=60)
SETTINGS = settings(
    max_examples=12,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
)


def work(number: int) -> Body:
    """Missions with and without a limit of their own, of team or cell, with a review or not."""
    spec: Body = {"completion": {"maxAttempts": 3, "timeout": "20h"}, "startDeadline": "20h"}
    if number % 2:
        spec["budget"] = {"maxCost": 0.75}
    if number == 1:
        spec["completion"]["review"] = {"enabled": True, "reviewer": "critic", "criteria": "ok"}
    if number == 3:
        spec |= {"formationRef": None, "cellRef": "team-critic-0"}
    return teams.work(REFS[number].name, **spec)


@dataclass
class History:
    """A world, the plans that are decided and not written, and what each run may have cost."""

    fake: FakeWorld
    plans: dict[ObjectRef, Plan] = field(default_factory=dict)

    @classmethod
    async def start(cls) -> History:
        limits = {"maxTotalCost": float(OF_CELL)}
        lead = {"name": "lead", "spec": {"mind": MIND, "resources": limits}}
        critic = {"name": "critic", "spec": {"mind": MIND}}
        budget = {"maxTotalCost": float(SHARE * 2), "maxCostPerHour": float(PER_HOUR)}
        bodies = [work(number) for number in range(len(REFS))]
        fake = fake_world(teams.team(cells=[lead, critic], budget=budget), *bodies)
        await teams.settle_team(fake)
        for name in CELLS:
            services.pod(fake, ObjectRef("Deployment", "demo", name), status=services.ready())
        await teams.settle_team(fake)
        for ref in REFS:
            await teams.pass_(fake, ref)
        return cls(fake)

    async def take(self, verb: str, number: int, amount: int) -> None:
        ref = REFS[number]
        if verb == "kill":
            self.kill()
        elif verb == "wait":
            self.fake.clock.advance((1, 60, 600, 4000, 2)[amount])
        elif ref not in self.fake.cluster.refs("Mission"):
            return
        elif verb in ("observe", "pass"):
            await self.observe(ref)
            for _ in range(2 if verb == "pass" else 0):
                await self.write(ref, None)
                await self.observe(ref)
        elif verb == "write":
            await self.write(ref, amount if amount < 2 else None)
        elif verb in ("answer", "report", "fail"):
            self.answer(ref, verb, Decimal(amount) / 4)
        else:
            self.edit(ref, verb)

    def kill(self) -> None:
        """End the operator; another one remembers nothing, and no plan is written any more."""
        self.plans.clear()
        self.fake = restarted(self.fake)

    async def observe(self, ref: ObjectRef) -> None:
        seen = await missions.CONTROLLER.observe(self.fake.world, ref)
        if seen is not None:
            self.plans[ref] = missions.CONTROLLER.decide(seen.observed, self.fake.clock.now())

    async def write(self, ref: ObjectRef, count: int | None) -> None:
        """Write a plan, or its first actions and then end the operator."""
        plan = self.plans.pop(ref, Plan())
        actions = plan.actions if count is None else plan.actions[:count]
        with contextlib.suppress(errors.Conflict, errors.NotFound):
            await executor.execute(Plan(actions), self.fake.world)
        if len(actions) < len(plan.actions):
            self.kill()

    def answer(self, ref: ObjectRef, verb: str, part: Decimal) -> None:
        """Let the open task of a mission end, or report a cost; it holds the budget it got."""
        for message, (mission, granted) in self.granted().items():
            task = self.fake.agents.tasks.get(message)
            if mission != ref.name or task is None or task.state in ENDED:
                continue
            usage = AgentUsage(turns=1, cost=max(_cost(task), granted * part))
            failure = AgentFailure(FailureClass.MODEL_UNAVAILABLE, "down")
            self.fake.agents.tasks[message] = {
                "answer": AgentTask(TaskState.COMPLETED, answer=APPROVED, usage=usage),
                "report": AgentTask(TaskState.WORKING, usage=usage),
                "fail": AgentTask(TaskState.FAILED, failure=failure, usage=usage),
            }[verb]

    def edit(self, ref: ObjectRef, verb: str) -> None:
        """Do what a user does."""
        cluster = self.fake.cluster
        if verb == "vanish":
            cluster.vanish(ref)
            self.forget(ref)
        elif verb == "delete":
            cluster.remove(ref)
        else:
            value = {
                "abort": {labels.ABORT: "true"},
                "suspend": {labels.RECONCILE: labels.RECONCILE_SUSPENDED},
                "resume": {labels.RECONCILE: None},
                "rerun": {labels.RERUN: str(len(cluster.writes))},
            }[verb]
            cluster.edit(ref, {"metadata": {"annotations": value}})

    def forget(self, ref: ObjectRef) -> None:
        """End the tasks of a mission that vanished: its cost is counted nowhere."""
        agents = self.fake.agents
        agents.deliveries = [each for each in agents.deliveries if each.call.mission != ref]

    def granted(self) -> dict[str, tuple[str, Decimal]]:
        """Return by message the mission and the largest budget that its cell got."""
        granted: dict[str, tuple[str, Decimal]] = {}
        for each in self.fake.agents.deliveries:
            budget = Decimal(each.call.budget_left or "NaN")
            _, earlier = granted.get(each.call.message_id, ("", Decimal(0)))
            granted[each.call.message_id] = (each.call.mission.name, max(earlier, budget))
        return granted

    # What must hold at any time

    def check(self) -> None:
        for cell, exposure in self.exposures().items():
            counted = self.counted(cell)
            limit = min(SHARE, OF_CELL) if cell == "team-lead-0" else SHARE
            assert counted["cost"] + exposure <= limit, f"{cell}: {counted} and {exposure}"
        open_costs = sum(self.exposures().values(), Decimal(0))
        hours = sum((self.counted(cell)["hour"] for cell in CELLS), Decimal(0))
        assert hours + open_costs <= PER_HOUR, f"the hour: {hours} and {open_costs}"

    def exposures(self) -> dict[str, Decimal]:
        """Return by cell what runs that are not counted have cost, and may still cost."""
        exposures = dict.fromkeys(CELLS, Decimal(0))
        for each in {each.call.message_id: each for each in self.fake.agents.deliveries}.values():
            call, task = each.call, self.fake.agents.tasks[each.call.message_id]
            if call.run_id in self.counted(call.address.cell.name)["runs"]:
                continue
            _, granted = self.granted()[call.message_id]
            ended = task.state in ENDED
            exposures[call.address.cell.name] += _cost(task) if ended else granted
        return exposures

    def counted(self, cell: str) -> Body:
        annotations = self.fake.cluster.read(ObjectRef("Cell", "demo", cell))["metadata"]
        text = annotations.get("annotations", {}).get(labels.CELL_USAGE)
        usage = json.loads(text) if text else {"cost": "0", "runs": []}
        now = self.fake.clock.now()
        hour = [cost for _, at, cost in usage["runs"] if _age_s(now, at) < 3600]
        return {
            "cost": Decimal(usage["cost"]),
            "hour": sum((Decimal(cost) for cost in hour), Decimal(0)),
            "runs": {run_id for run_id, _, _ in usage["runs"]},
        }

    async def drain(self) -> None:
        """Let every run end: no reservation may be left, and no mission may wait for ever."""
        for ref in self.fake.cluster.refs("Mission"):
            self.edit(ref, "resume")
        for _ in range(ROUNDS):
            for ref in self.fake.cluster.refs("Mission"):
                await self.take("pass", REFS.index(ref), 0)
                self.answer(ref, "answer", Decimal(0))
                self.check()
            self.fake.clock.advance(2)
            if self.has_ended():
                break
        formation = self.fake.cluster.read(FORMATION)["metadata"].get("annotations", {})
        entries = json.loads(formation.get(labels.RESERVATIONS, '{"runs": []}'))["runs"]
        holders = {ObjectRef("Mission", "demo", mission) for _, _, mission, _, _ in entries}
        # That of a mission that vanished goes when another mission needs it.
        assert holders.isdisjoint(self.fake.cluster.refs("Mission"))
        assert self.has_ended()

    def has_ended(self) -> bool:
        """Whether every run has ended, and its end is written everywhere."""
        missions = [self.fake.cluster.read(ref) for ref in self.fake.cluster.refs("Mission")]
        return not any(
            body["metadata"].get("finalizers")
            or labels.OUTCOME not in body["metadata"]["annotations"]
            for body in missions
        )


APPROVED = json.dumps({"verdict": "approve", "reasons": "right"})


def _cost(task: AgentTask) -> Decimal:
    return task.usage.cost if task.usage is not None else Decimal(0)


def _age_s(now: datetime, at: str) -> float:
    return (now - datetime.fromisoformat(at)).total_seconds()


async def _live(history: list[tuple[str, int, int]]) -> None:
    life = await History.start()
    for step in history:
        await life.take(*step)
        life.check()
    await life.drain()


@SETTINGS
@given(HISTORY)
def test_no_history_exceeds_a_limit_and_no_reservation_is_left(
    history: list[tuple[str, int, int]],
) -> None:
    asyncio.run(_live(history))
