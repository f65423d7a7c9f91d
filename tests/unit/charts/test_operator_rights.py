"""What the operator calls, held against the rules of the chart, for both ways to install it.

Every decision of the unit tests is carried out with these rights: `fake_world` refuses what no rule
grants. Here is shown that it does refuse, and what lies beside the decisions: watches, the Lease,
the outbox at home.
"""

from __future__ import annotations

import inspect
from dataclasses import replace

import pytest

from kais_operator import errors, ports
from kais_operator.controllers.blueprint_instance import observe as blueprint_instance
from kais_operator.controllers.outbox import observe as outbox_reading
from kais_operator.controllers.outbox.decide import outbox
from kais_operator.informer import watch_heartbeat, watch_targets
from kais_operator.kubernetes import api_paths
from kais_operator.manager import kopf_watches
from kais_operator.planning.plan import ObjectRef
from tests.fakes import blueprints, chart_rbac, uses
from tests.fakes.chart_rbac import Rights
from tests.fakes.world import FakeWorld, fake_world

WATCHED_KINDS = (
    *kopf_watches.WATCHED_KINDS,
    *watch_targets.INSTANCE_KINDS,
    *watch_targets.CHILD_KINDS,
)
WAYS = {"cluster": chart_rbac.OF_CLUSTER, "namespaces": chart_rbac.OF_NAMESPACES}
ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())


async def run_again_on_another_revision(fake: FakeWorld) -> None:
    """Update a use whose run has ended, and request another run: its Mission is recreated."""
    await uses.settle(fake)
    uses.end(fake)
    await uses.settle(fake)
    fake.cluster.edit(uses.USE, {"spec": {"parameters": {"topic": "nodes", "count": 3}}})
    await uses.settle(fake)
    uses.annotate(fake, rerun="again")
    for _ in range(4):
        await fake.step(blueprint_instance.CONTROLLER, uses.USE)


async def world_with(rights: Rights) -> FakeWorld:
    use = blueprints.instance(parameters={"topic": "pods", "count": 2})
    fake = await uses.world(use)
    fake.cluster.rights = (rights,)
    return fake


@ways
async def test_a_use_that_was_updated_may_run_again_with_the_charts_rights(way: Rights) -> None:
    fake = await world_with(way)
    await run_again_on_another_revision(fake)
    assert ("delete", uses.MISSION) in fake.cluster.writes


@ways
async def test_a_decision_that_lacks_a_right_of_the_chart_fails_its_test(way: Rights) -> None:
    lacking = replace(way, watched=way.watched - {("kais.io", "missions", "delete")})
    fake = await world_with(lacking)
    message = 'missions.kais.io "use" is forbidden: .* cannot delete resource "missions"'
    with pytest.raises(errors.Forbidden, match=message):
        await run_again_on_another_revision(fake)


@ways
@pytest.mark.parametrize("kind", WATCHED_KINDS)
def test_whatever_is_watched_may_be_listed_and_watched(way: Rights, kind: str) -> None:
    for namespace in ("demo", chart_rbac.HOME):
        for verb in ("list", "watch"):
            way.require(verb, ObjectRef(kind, namespace, ""))


@ways
@pytest.mark.parametrize("verb", ["get", "create", "patch"])
def test_the_leases_of_election_and_of_the_watch_probe_may_be_written(
    way: Rights, verb: str
) -> None:
    for name in ("kais-operator", watch_heartbeat.LEASE):
        way.require(verb, ObjectRef(watch_targets.HEARTBEAT_KIND, chart_rbac.HOME, name))


@ways
async def test_the_outbox_is_kept_and_emptied_with_the_rights_at_home(way: Rights) -> None:
    body = outbox.body(chart_rbac.HOME, key="demo/run", calls=[])
    fake = fake_world(rights=(way,))
    await fake.world.cluster.create(body)
    ref = ObjectRef(outbox_reading.KIND, chart_rbac.HOME, body["metadata"]["name"])
    await fake.step(outbox_reading.CONTROLLER, ref)
    assert fake.cluster.refs("ConfigMap") == []


def test_every_call_of_the_cluster_port_is_held_against_the_rules() -> None:
    """A method that is added to the port needs its verbs in `rights.of_call`."""
    calls = {name for name, _ in inspect.getmembers(ports.Cluster, inspect.isfunction)}
    reads = {"get", "get_child", "list", "events_about", "scopes_of_borrowers"}
    writes = {"create", "apply", "patch_metadata", "patch_spec", "delete"}
    assert {c for c in calls if not c.startswith("_")} == {
        *reads,
        *writes,
        "apply_status",
        "emit",
    }


def test_every_kind_that_the_operator_calls_has_a_rule() -> None:
    resources = {resource for _, resource, _ in chart_rbac.OF_CLUSTER.home}
    assert {target_resource.plural for target_resource in api_paths.RESOURCES.values()} <= resources
