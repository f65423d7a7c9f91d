"""Blueprints, revisions and uses settle on a real API server, whatever it defaults."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import yaml

from kais_operator.adapters import connection
from kais_operator.adapters.clock import SystemClock
from kais_operator.adapters.cluster import ApiCluster
from kais_operator.adapters.store_memory import StoreMemory
from kais_operator.apply import executor, status
from kais_operator.decide.plan import Body, ObjectRef
from kais_operator.observe import blueprint, blueprint_instance, blueprint_revision
from kais_operator.observe.reconcilers import Reconciler
from kais_operator.ports import Placement, World
from tests.fakes import blueprints
from tests.fakes.knowledge import FakeKnowledge
from tests.fakes.renderer import InProcessRenderer

pytestmark = pytest.mark.cluster


@pytest.fixture
async def world(control_plane) -> AsyncIterator[World]:
    clock = SystemClock()
    link = await connection.connect(str(control_plane.kubeconfig))
    memory = StoreMemory(clock)
    yield World(
        ApiCluster(link, leads=lambda: True, clock=clock),
        FakeKnowledge(),
        memory,
        InProcessRenderer(),
        clock,
        Placement(operator_namespace="default", knowledge_url="http://knowledge:8000"),
    )
    await link.close()


async def settle(world: World, reconciler: Reconciler, ref: ObjectRef) -> Body:
    """Make passes until one plans nothing and leaves the object as it is."""
    for _ in range(5):
        seen = await reconciler.observe(world, ref)
        assert seen is not None
        assert seen.body is not None
        plan = reconciler.decide(seen.observed, world.clock.now())
        await executor.execute(plan, world)
        await status.write(world.cluster, seen.body, plan.status)
        left = await world.cluster.get(ref)
        assert left is not None
        same = left["metadata"]["resourceVersion"] == seen.body["metadata"]["resourceVersion"]
        if not plan.actions and same:
            return left
    raise AssertionError(f"{ref} does not settle: {plan}")


async def test_a_blueprint_and_its_use_settle(control_plane, world: World, namespace: str) -> None:
    head = blueprints.blueprint(namespace=namespace, description="explains")
    use = blueprints.instance(namespace=namespace, parameters={"topic": "pods", "count": 2})
    control_plane.apply(yaml.safe_dump_all([head, use]), namespace=namespace)
    team = ObjectRef("Blueprint", namespace, "team")
    first = ObjectRef("BlueprintRevision", namespace, "team-r00001")

    settled = await settle(world, blueprint.RECONCILER, team)
    assert settled["status"]["servedRevision"] == 1
    await settle(world, blueprint_revision.RECONCILER, first)
    instance = ObjectRef("BlueprintInstance", namespace, "use")
    used = await settle(world, blueprint_instance.RECONCILER, instance)
    assert used["status"]["phase"] == "Running"
    formation = await world.cluster.get(ObjectRef("Formation", namespace, "use"))
    mission = await world.cluster.get(ObjectRef("Mission", namespace, "use"))
    assert formation is not None
    assert mission is not None
    assert formation["spec"]["cells"][0]["replicas"] == 2
    run_id = used["metadata"]["annotations"]["kais.io/run-id"]
    assert mission["metadata"]["annotations"]["kais.io/run-id"] == run_id

    patch = '{"spec": {"mission": {"objective": "mend {{ topic }}"}}}'
    control_plane.kubectl("patch", "bp", "team", "-n", namespace, "--type=merge", "-p", patch)
    edited = await settle(world, blueprint.RECONCILER, team)
    assert (edited["status"]["latestRevision"], edited["status"]["servedRevision"]) == (2, 2)
    second = ObjectRef("BlueprintRevision", namespace, "team-r00002")
    revision = await settle(world, blueprint_revision.RECONCILER, second)
    assert "mission.objective changed" in revision["spec"]["changes"]
    again = await settle(world, blueprint_instance.RECONCILER, instance)
    assert again["metadata"]["resourceVersion"] == used["metadata"]["resourceVersion"]
    rows = control_plane.kubectl("get", "bp,bpr,bpi", "-n", namespace)
    assert "topic*, count" in rows
