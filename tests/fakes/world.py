"""A whole world in memory, and the pass that `handlers.reconcile` makes, for fixed-point tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from kais.pod_defaults import NO_POLICY, PodPolicy
from kais_operator.apply import executor, status
from kais_operator.controllers.base import Controller
from kais_operator.knowledge.client import MonitoredKnowledge
from kais_operator.knowledge.sync_state import KnowledgeSyncState
from kais_operator.manager.write_refusals import WriteRefusalMemory
from kais_operator.planning.agent_settings import AgentSettings
from kais_operator.planning.plan import Body, ObjectRef, Plan
from kais_operator.ports import Placement, World
from tests.fakes.agents import FakeAgents
from tests.fakes.chart_rbac import EVERY_WAY, HOME, Rights
from tests.fakes.clock import FakeClock
from tests.fakes.cluster import FakeCluster
from tests.fakes.containers import FakeContainers
from tests.fakes.knowledge import FakeKnowledge
from tests.fakes.renderer import InProcessRenderer


@dataclass
class FakeWorld:
    """The fakes by their own types, and `world`, the ports over them."""

    clock: FakeClock
    cluster: FakeCluster
    knowledge: FakeKnowledge
    sync_state: KnowledgeSyncState
    world: World
    containers: FakeContainers
    agents: FakeAgents

    async def step(self, reconciler: Controller, ref: ObjectRef) -> Plan | None:
        """Make one pass: observe, decide, apply, status; gives the Plan, None for nothing to do."""
        seen = await reconciler.observe(self.world, ref)
        if seen is None:
            return None
        plan = reconciler.decide(seen.observed, self.clock.now())
        executed = await executor.execute(plan, self.world)
        self.world.write_refusals.forget(ref)
        plan = executed.plan_to_report(plan)
        if seen.body is not None:
            await status.write(self.world.cluster, seen.body, plan.status)
            await executor.emit_events(plan, seen.body, self.world)
        return plan

    async def settle(
        self, reconciler: Controller, ref: ObjectRef, *, passes: int = 10
    ) -> Plan | None:
        """Make passes until one changes nothing; AssertionError when none does."""
        for _ in range(passes):
            before = len(self.cluster.writes)
            plan = await self.step(reconciler, ref)
            if plan is None or (not plan.actions and len(self.cluster.writes) == before):
                return plan
        raise AssertionError(f"{ref} does not settle; last writes: {self.cluster.writes[-5:]}")

    async def refresh_stats(self) -> None:
        """Do the statistics batch, as the background task does."""
        self.sync_state.record_stats(await self.knowledge.stats_batch(self.sync_state.due_stats()))


def fake_world(
    *bodies: Body,
    renderer: Any = None,
    rights: Sequence[Rights] = EVERY_WAY,
    has_spawn_policy: bool = True,
    pod_policy: PodPolicy | None = None,
) -> FakeWorld:
    """Build a world that holds `bodies`, with the operator in `kais-system`.

    The operator has the rights that the chart gives it, whichever way it is installed.
    """
    clock = FakeClock()
    cluster = FakeCluster(*bodies, clock=clock, rights=rights)
    knowledge = FakeKnowledge(clock=clock)
    memory = KnowledgeSyncState(clock)
    placement = Placement(
        operator_namespace=HOME,
        knowledge_url="http://knowledge.kais-system:8000",
        check_image="kais/operator:1",
        has_spawn_policy=has_spawn_policy,
        agents=AgentSettings(
            image="kais/agent:1",
            model_urls={"openai": "http://models:8080/v1"},
            prices='{"openai/*": {"input": "1", "output": "4"}}',
        ),
        pod_policy=pod_policy or NO_POLICY,
    )
    noted = MonitoredKnowledge(knowledge, memory, clock)
    containers = FakeContainers(clock, rights=rights)
    agents = FakeAgents()
    world = World(
        cluster=cluster,
        knowledge=noted,
        sync_state=memory,
        renderer=renderer or InProcessRenderer(),
        clock=clock,
        placement=placement,
        containers=containers,
        agents=agents,
        write_refusals=WriteRefusalMemory(),
    )
    return FakeWorld(clock, cluster, knowledge, memory, world, containers, agents)


def restarted(fake: FakeWorld) -> FakeWorld:
    """Give the same cluster and store to an operator that remembers nothing."""
    memory = KnowledgeSyncState(fake.clock)
    noted = MonitoredKnowledge(fake.knowledge, memory, fake.clock)
    fake.agents.end_all()
    world = replace(
        fake.world, sync_state=memory, knowledge=noted, write_refusals=WriteRefusalMemory()
    )
    return replace(fake, sync_state=memory, world=world)
