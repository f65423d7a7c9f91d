"""Blueprints, revisions and uses settle on a real API server, whatever it defaults."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import yaml

from kais_operator.controllers.blueprint import observe as blueprint
from kais_operator.controllers.blueprint_instance import observe as blueprint_instance
from kais_operator.controllers.blueprint_revision import observe as blueprint_revision
from kais_operator.planning.plan import ObjectRef
from kais_operator.ports import World
from tests.cluster import reconciles
from tests.fakes import blueprints

pytestmark = pytest.mark.cluster


@pytest.fixture
async def world(control_plane) -> AsyncIterator[World]:
    world, link = await reconciles.connected(control_plane.kubeconfig)
    yield world
    await link.close()


async def test_a_blueprint_and_its_use_settle(control_plane, world: World, namespace: str) -> None:
    head = blueprints.blueprint(namespace=namespace, description="explains")
    use = blueprints.instance(namespace=namespace, parameters={"topic": "pods", "count": 2})
    control_plane.apply(yaml.safe_dump_all([head, use]), namespace=namespace)
    team = ObjectRef("Blueprint", namespace, "team")
    first = ObjectRef("BlueprintRevision", namespace, "team-r00001")

    settled = await reconciles.settle(world, blueprint.CONTROLLER, team, passes=5)
    assert settled["status"]["servedRevision"] == 1
    await reconciles.settle(world, blueprint_revision.CONTROLLER, first, passes=5)
    instance = ObjectRef("BlueprintInstance", namespace, "use")
    usages = await reconciles.settle(world, blueprint_instance.CONTROLLER, instance, passes=5)
    assert usages["status"]["phase"] == "Running"
    formation = await world.cluster.get(ObjectRef("Formation", namespace, "use"))
    mission = await world.cluster.get(ObjectRef("Mission", namespace, "use"))
    assert formation is not None
    assert mission is not None
    assert formation["spec"]["cells"][0]["replicas"] == 2
    run_id = usages["metadata"]["annotations"]["kais.io/run-id"]
    assert mission["metadata"]["annotations"]["kais.io/run-id"] == run_id

    patch = '{"spec": {"mission": {"objective": "mend {{ topic }}"}}}'
    control_plane.kubectl("patch", "bp", "team", "-n", namespace, "--type=merge", "-p", patch)
    edited = await reconciles.settle(world, blueprint.CONTROLLER, team, passes=5)
    assert (edited["status"]["latestRevision"], edited["status"]["servedRevision"]) == (2, 2)
    second = ObjectRef("BlueprintRevision", namespace, "team-r00002")
    revision = await reconciles.settle(world, blueprint_revision.CONTROLLER, second, passes=5)
    assert "mission.objective changed" in revision["spec"]["changes"]
    result = await reconciles.settle(world, blueprint_instance.CONTROLLER, instance, passes=5)
    assert result["metadata"]["resourceVersion"] == usages["metadata"]["resourceVersion"]
    rows = control_plane.kubectl("get", "bp,bpr,bpi", "-n", namespace)
    assert "topic*, count" in rows
