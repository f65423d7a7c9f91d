"""Which revisions stay and which go, and what cannot be written."""

import pytest

from kais_operator.controllers.blueprint import observe as blueprint
from kais_operator.planning.plan import ObjectRef
from tests.fakes import blueprints
from tests.fakes.blueprint_builder import REF, condition, edit, numbers, settle, status, world
from tests.fakes.world import FakeWorld


async def test_old_revisions_go_when_nobody_names_them() -> None:
    fake = world(blueprints.blueprint(revisionHistoryLimit=2))
    await settle(fake)
    pinned = blueprints.instance(blueprintRef={"name": "team", "revision": 1})
    fake.cluster.put(pinned)
    for n in range(4):
        await edit(fake, mission={"objective": f"mend {{{{ topic }}}} {n}"})
    assert numbers(fake) == [1, 2, 3, 4, 5], "what could go is marked first"
    fake.clock.advance(121)
    await settle(fake)
    assert numbers(fake) == [1, 4, 5]
    fake.cluster.remove(ObjectRef("BlueprintInstance", "demo", "use"))
    await settle(fake)
    fake.clock.advance(121)
    await settle(fake)
    assert numbers(fake) == [4, 5]


async def test_a_revision_that_a_use_names_at_the_last_moment_stays() -> None:
    fake = world(blueprints.blueprint(revisionHistoryLimit=1))
    await settle(fake)
    await edit(fake, mission={"objective": "mend {{ topic }}"})
    first = ObjectRef("BlueprintRevision", "demo", "team-r00001")
    assert "kais.io/collect-after" in fake.cluster.read(first)["metadata"]["annotations"]
    late = blueprints.instance()
    late["metadata"]["labels"] = {"kais.io/blueprint": "team", "kais.io/revision": "1"}
    fake.cluster.put(late)  # it had read revision 1 before the edit, and wrote it down after
    fake.clock.advance(121)
    await settle(fake)
    assert numbers(fake) == [1, 2]
    assert fake.cluster.read(first)["metadata"]["annotations"] == {}


async def test_a_mark_that_somebody_edited_is_written_anew() -> None:
    fake = world(blueprints.blueprint(revisionHistoryLimit=1))
    await settle(fake)
    await edit(fake, mission={"objective": "mend {{ topic }}"})
    first = ObjectRef("BlueprintRevision", "demo", "team-r00001")
    fake.cluster.edit(first, {"metadata": {"annotations": {"kais.io/collect-after": "soon"}}})
    await settle(fake)
    fake.clock.advance(121)
    await settle(fake)
    assert numbers(fake) == [2]


@pytest.mark.parametrize(
    "label",
    ["kais.io/blueprint", "kais.io/revision", "kais.io/spec-hash", "app.kubernetes.io/managed-by"],
)
@pytest.mark.parametrize("value", [None, "other"])
async def test_a_revision_gets_its_labels_back(label: str, value: str | None) -> None:
    fake = world(blueprints.blueprint())
    await settle(fake)
    first = ObjectRef("BlueprintRevision", "demo", "team-r00001")
    initial_labels = fake.cluster.read(first)["metadata"]["labels"]
    fake.cluster.edit(first, {"metadata": {"labels": {label: value}}})
    await fake.step(blueprint.CONTROLLER, REF)
    await settle(fake)
    assert fake.cluster.read(first)["metadata"]["labels"] == initial_labels
    assert numbers(fake) == [1]


async def test_a_name_that_something_else_bears_is_told_and_the_last_good_one_serves() -> None:
    fake = world(blueprints.blueprint())
    await settle(fake)
    theirs = blueprints.revision(2)
    theirs["spec"]["blueprint"] = "another"
    theirs["metadata"]["labels"] = {}
    fake.cluster.put(theirs)
    fake.cluster.edit(REF, {"spec": {"mission": {"objective": "mend {{ topic }}"}}})
    await fake.settle(blueprint.CONTROLLER, REF)
    reported_condition = condition(fake, "Compiled")
    assert (reported_condition["status"], reported_condition["reason"]) == ("False", "NameTaken")
    assert reported_condition["message"] == (
        "revision 2: BlueprintRevision/demo/team-r00002 exists already and is no revision of this "
        "Blueprint; delete it; revision 1 keeps serving"
    )
    assert condition(fake, "Ready")["message"] == (
        "revision 1 serves, because revision 2 cannot be made"
    )
    fake.cluster.vanish(ObjectRef("BlueprintRevision", "demo", "team-r00002"))
    await fake.settle(blueprint.CONTROLLER, REF)
    assert status(fake)["servedRevision"] == 2


async def test_a_revision_too_large_for_etcd_is_never_written_and_its_size_is_told() -> None:
    fake = world(blueprints.blueprint())
    await settle(fake)
    cell = blueprints.blueprint()["spec"]["formation"]["cells"][0]
    notes = {f"n{i}": "x" * 60_000 for i in range(24)}
    fake.cluster.edit(REF, {"spec": {"formation": {"cells": [cell], **notes}}})
    await fake.settle(blueprint.CONTROLLER, REF)
    reported_condition = condition(fake, "Compiled")
    assert (reported_condition["status"], reported_condition["reason"]) == ("False", "TooLarge")
    assert "BlueprintRevision/demo/team-r00002 would be 144" in reported_condition["message"]
    assert "bytes, the limit is 1400000" in reported_condition["message"]
    assert status(fake)["servedRevision"] == 1
    assert numbers(fake) == [1]


async def test_a_first_blueprint_too_large_for_etcd_serves_nothing() -> None:
    notes = {f"n{i}": "x" * 60_000 for i in range(24)}
    fake = world(blueprints.blueprint(formation={"cells": [], **notes}))
    await fake.settle(blueprint.CONTROLLER, REF)
    assert condition(fake, "Ready")["reason"] == "NoGoodRevision"
    assert numbers(fake) == []


@pytest.mark.parametrize(
    ("kind", "phase", "kept"),
    [
        pytest.param("Mission", None, True, id="a mission keeps it"),
        pytest.param("Pod", "Running", True, id="a running pod keeps it"),
        pytest.param("Pod", "Succeeded", False, id="a pod that ended does not"),
    ],
)
async def test_what_a_deleted_blueprint_leaves(kind: str, phase: str | None, kept: bool) -> None:
    fake = world(blueprints.blueprint())
    await settle(fake)
    labels = {"kais.io/blueprint": "team", "kais.io/revision": "1"}
    user = {"kind": kind, "metadata": {"name": "user", "namespace": "demo", "labels": labels}}
    fake.cluster.put({**user, "status": {"phase": phase}})
    fake.cluster.remove(REF)
    await _two_looks(fake)
    assert bool(numbers(fake)) is kept
    fake.cluster.remove(ObjectRef(kind, "demo", "user"))
    await _two_looks(fake)
    assert numbers(fake) == []
    assert await fake.step(blueprint.CONTROLLER, REF) is None


async def _two_looks(fake: FakeWorld) -> None:
    await fake.step(blueprint.CONTROLLER, REF)
    fake.clock.advance(121)
    await fake.step(blueprint.CONTROLLER, REF)


async def test_a_restored_revision_is_taken_back_by_its_spec() -> None:
    head = blueprints.blueprint()
    fake = world(head, blueprints.revision(4, of=head))
    await settle(fake)
    assert numbers(fake) == [4]
    annotations = fake.cluster.read(REF)["metadata"]["annotations"]
    assert annotations["kais.io/last-revision"] == "4"
    assert annotations["kais.io/served-revision"] == "4"
