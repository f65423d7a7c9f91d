"""Passes of reconcilers against a real API server, without the queue and its watches."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kais_operator import errors
from kais_operator.apply import executor, status
from kais_operator.clock import SystemClock
from kais_operator.controllers.base import Controller
from kais_operator.knowledge.client import MonitoredKnowledge
from kais_operator.knowledge.sync_state import KnowledgeSyncState
from kais_operator.kubernetes import api_client
from kais_operator.kubernetes.cluster import ApiCluster
from kais_operator.kubernetes.pod_exec import ApiContainers
from kais_operator.manager.write_refusals import WriteRefusalMemory
from kais_operator.planning.plan import Body, ObjectRef, Plan
from kais_operator.ports import Placement, World
from tests.fakes.agents import FakeAgents
from tests.fakes.knowledge import FakeKnowledge
from tests.fakes.renderer import InProcessRenderer


async def connected(kubeconfig: Path) -> tuple[World, api_client.ApiClient]:
    """Give a world over a real cluster and a store in memory; the caller closes the connection."""
    clock = SystemClock()
    link = await api_client.connect(str(kubeconfig))
    memory = KnowledgeSyncState(clock)
    cluster = ApiCluster(link, is_leader=lambda: True, clock=clock)
    knowledge = MonitoredKnowledge(FakeKnowledge(), memory, clock)
    placement = Placement(operator_namespace="default", knowledge_url="http://knowledge:8000")
    running = ApiContainers(link, is_leader=lambda: True, clock=clock)
    world = World(
        cluster=cluster,
        knowledge=knowledge,
        sync_state=memory,
        renderer=InProcessRenderer(),
        clock=clock,
        placement=placement,
        containers=running,
        agents=FakeAgents(),
        write_refusals=WriteRefusalMemory(),
    )
    return world, link


async def settle(world: World, reconciler: Controller, ref: ObjectRef, *, passes: int = 8) -> Body:
    """Make passes until one plans nothing and leaves the object as it is.

    A pass that the API server has no answer for is made again, as the queue does: right after a
    definition is stored its first lists are refused.
    """
    record: Body | Plan | errors.ClusterUnavailable | None = None
    for _ in range(passes):
        try:
            record = await _pass(world, reconciler, ref)
        except errors.ClusterUnavailable as exc:
            record = exc
            await asyncio.sleep(0.5)
        if isinstance(record, dict):
            return record
    raise AssertionError(f"{ref} does not settle: {record}")


async def _pass(world: World, reconciler: Controller, ref: ObjectRef) -> Body | Plan:
    """Give the object when nothing is left to do, else the Plan that was carried out."""
    observation = await reconciler.observe(world, ref)
    assert observation is not None
    assert observation.body is not None
    plan = reconciler.decide(observation.observed, world.clock.now())
    await executor.execute(plan, world)
    await status.write(world.cluster, observation.body, plan.status)
    remaining_fields = await world.cluster.get(ref)
    assert remaining_fields is not None
    same = (
        remaining_fields["metadata"]["resourceVersion"]
        == observation.body["metadata"]["resourceVersion"]
    )
    return remaining_fields if not plan.actions and same else plan
