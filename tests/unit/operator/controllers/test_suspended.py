"""`kais.io/reconcile: suspended` works on every kind: nothing is written, and it is said."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kais import labels
from kais.resources.kinds import BY_NAME
from kais_operator.controllers import registry
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes import blueprints, teams, uses
from tests.fakes.renderer import InProcessRenderer
from tests.fakes.world import FakeWorld, fake_world

MESSAGE = "nothing is written while kais.io/reconcile is suspended"
SCOPE = ObjectRef("KnowledgeScope", "demo", "memory")
REVISION = ObjectRef("BlueprintRevision", "demo", "team-r00001")
TEAM_MISSION = ObjectRef("Mission", "demo", "doctor")
Change = Callable[[FakeWorld], object]


def suspend(
    fake: FakeWorld, ref: ObjectRef, value: str | None = labels.RECONCILE_SUSPENDED
) -> None:
    fake.cluster.edit(ref, {"metadata": {"annotations": {labels.RECONCILE: value}}})


async def settle(fake: FakeWorld, ref: ObjectRef) -> None:
    await fake.settle(registry.CONTROLLERS[ref.kind], ref)


def writes(fake: FakeWorld) -> list[tuple[str, ObjectRef]]:
    return [write for write in fake.cluster.writes if write[0] not in ("status", "emit")]


def edit(ref: ObjectRef, patch: Body) -> Change:
    return lambda fake: fake.cluster.edit(ref, patch)


async def used(*bodies: Body, **head: Any) -> FakeWorld:
    fake = await uses.world(*bodies, head=blueprints.blueprint(**head))
    await uses.settle(fake)
    return fake


async def scoped() -> FakeWorld:
    fake = fake_world(teams.scope(retention={"maxFacts": 10}))
    await settle(fake, SCOPE)
    return fake


CASES: dict[str, tuple[Callable[[], Awaitable[FakeWorld]], ObjectRef, Change]] = {
    "Blueprint": (used, uses.TEAM, edit(uses.TEAM, {"spec": {"description": "another"}})),
    "BlueprintRevision": (
        used,
        REVISION,
        edit(REVISION, {"metadata": {"labels": {labels.SPEC_HASH: "x"}}}),
    ),
    "BlueprintInstance": (
        used,
        uses.USE,
        lambda fake: (uses.end(fake), uses.edit_parameters(fake, topic="nodes", count=2)),
    ),
    "Formation": (
        teams.ready_world,
        teams.FORMATION,
        edit(teams.FORMATION, {"spec": {"cells": [{"name": "other", "spec": teams.task()}]}}),
    ),
    "Cell": (
        teams.ready_world,
        teams.CELL,
        lambda fake: fake.cluster.vanish(ObjectRef("ServiceAccount", "demo", "team-lead-0")),
    ),
    "Mission": (
        teams.ready_world,
        TEAM_MISSION,
        lambda fake: None,
    ),
    "KnowledgeScope": (
        scoped,
        SCOPE,
        edit(SCOPE, {"spec": {"retention": {"maxFacts": 20}}}),
    ),
}


def test_every_kind_has_a_case() -> None:
    assert CASES.keys() == BY_NAME.keys()


@pytest.mark.parametrize("kind", CASES)
async def test_a_change_of_a_suspended_object_waits_until_it_is_released(kind: str) -> None:
    make, ref, change = CASES[kind]
    fake = await make()
    suspend(fake, ref)
    await settle(fake, ref)
    change(fake)
    initial_items, scopes = writes(fake), dict(fake.knowledge.scopes)
    await settle(fake, ref)
    waiting = [
        w for w in writes(fake)[len(initial_items) :] if w[0] != "patch" or ref.kind != "Mission"
    ]
    assert waiting == []
    assert fake.knowledge.scopes == scopes
    conditions = fake.cluster.read(ref)["status"]["conditions"]
    assert any("kais.io/reconcile is suspended" in c["message"] for c in conditions)
    count = len(fake.cluster.writes)
    await settle(fake, ref)
    assert len(fake.cluster.writes) == count, "an idle suspended object is written to"
    suspend(fake, ref, None)
    await settle(fake, ref)
    assert writes(fake) != initial_items or fake.knowledge.scopes != scopes
    conditions = fake.cluster.read(ref)["status"]["conditions"]
    assert not any("kais.io/reconcile" in c["message"] for c in conditions)


def condition(fake: FakeWorld, ref: ObjectRef, type_: str) -> tuple[str, str, str]:
    conditions = fake.cluster.read(ref)["status"]["conditions"]
    result = next(c for c in conditions if c["type"] == type_)
    return result["status"], result["reason"], result["message"]


async def test_a_suspended_blueprint_serves_on_and_makes_no_revision() -> None:
    fake = await used()
    suspend(fake, uses.TEAM)
    fake.cluster.edit(uses.TEAM, {"spec": {"description": "another"}})
    await settle(fake, uses.TEAM)
    assert fake.cluster.refs("BlueprintRevision") == [REVISION]
    compiled = f"revision 2: {MESSAGE}; revision 1 keeps serving"
    assert condition(fake, uses.TEAM, "Compiled") == ("False", "Suspended", compiled)
    assert condition(fake, uses.TEAM, "Ready")[:2] == ("True", "LastGoodServed")


async def test_a_use_that_is_suspended_before_its_run_begins_nothing() -> None:
    use = blueprints.instance()
    use["metadata"]["annotations"] = {labels.RECONCILE: labels.RECONCILE_SUSPENDED}
    fake = await used(use)
    assert fake.cluster.refs("Mission") == fake.cluster.refs("Formation") == []
    assert labels.RUN_ID not in uses.annotations_of(fake)
    assert condition(fake, uses.USE, "Applied") == ("False", "Suspended", MESSAGE)
    assert condition(fake, uses.USE, "Ready")[:2] == ("False", "Suspended")


async def test_a_suspended_use_does_not_delete_itself() -> None:
    use = blueprints.instance()
    use["spec"]["ttlSecondsAfterFinished"] = 60
    fake = await used(use)
    uses.end(fake)
    await uses.settle(fake)
    suspend(fake, uses.USE)
    fake.clock.advance(120)
    await uses.settle(fake)
    assert uses.USE in fake.cluster.refs()
    suspend(fake, uses.USE, None)
    await fake.step(registry.CONTROLLERS["BlueprintInstance"], uses.USE)
    assert uses.USE not in fake.cluster.refs()


async def test_a_suspended_cell_is_paused_and_its_pods_stay() -> None:
    fake = fake_world(teams.lone_cell(mode="Service"), renderer=InProcessRenderer())
    ref = ObjectRef("Cell", "demo", "solo")
    await settle(fake, ref)
    suspend(fake, ref)
    fake.cluster.edit(ref, {"spec": {"container": {"image": "worker:2"}}})
    await settle(fake, ref)
    (deployment,) = fake.cluster.refs("Deployment")
    pod = fake.cluster.read(deployment)["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "worker:1"
    assert fake.cluster.read(ref)["status"]["phase"] == "Paused"
    assert condition(fake, ref, "Ready") == ("False", "Suspended", MESSAGE)


async def test_a_suspended_cell_that_may_not_run_is_stopped_all_the_same() -> None:
    cell = teams.lone_cell(mode="Service", serviceAccountName="shared")
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {
            "name": "shared",
            "namespace": "demo",
            "annotations": {labels.ALLOW_CELLS: "true"},
        },
    }
    fake = fake_world(account, cell)
    ref = ObjectRef("Cell", "demo", "solo")
    await settle(fake, ref)
    suspend(fake, ref)
    shared = ObjectRef("ServiceAccount", "demo", "shared")
    fake.cluster.edit(shared, {"metadata": {"annotations": {labels.ALLOW_CELLS: None}}})
    await settle(fake, ref)
    (deployment,) = fake.cluster.refs("Deployment")
    assert fake.cluster.read(deployment)["spec"]["replicas"] == 0


async def test_a_suspended_scope_that_is_deleted_goes() -> None:
    fake = fake_world(teams.scope(deletionPolicy="Delete"))
    await settle(fake, SCOPE)
    suspend(fake, SCOPE)
    fake.cluster.remove(SCOPE)
    await fake.step(registry.CONTROLLERS["KnowledgeScope"], SCOPE)
    assert SCOPE not in fake.cluster.refs()
