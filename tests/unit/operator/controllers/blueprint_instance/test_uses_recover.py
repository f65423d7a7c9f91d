"""A use that lost its annotations, or was created again over its children, goes on with its run."""

from typing import Any

import pytest

from kais import labels, names
from tests.fakes import blueprints, uses
from tests.fakes.uses import FORMATION, MISSION, USE, annotate, annotations_of, status
from tests.fakes.world import FakeWorld


def replace(fake: FakeWorld) -> None:
    """Do what `kubectl replace -f` does with the file that the use was created from."""
    metadata = uses.metadata(fake)
    removed = {
        field: dict.fromkeys(metadata.get(field) or {}) for field in ("annotations", "labels")
    }
    fake.cluster.edit(USE, {"metadata": removed})


def create_again(fake: FakeWorld, **spec: Any) -> None:
    """Do what `kubectl delete --cascade=orphan` and another create do."""
    fake.cluster.vanish(USE)
    for child in (MISSION, FORMATION):
        fake.cluster.edit(child, {"metadata": {"ownerReferences": None}})
    fake.cluster.put(blueprints.instance(**spec))


async def rerun() -> FakeWorld:
    """A use whose second run has succeeded."""
    fake = await uses.world()
    await uses.settle(fake)
    uses.end(fake, "Failed")
    await uses.settle(fake)
    annotate(fake, rerun="2")
    await uses.settle(fake)
    uses.run_again(fake)
    uses.end(fake)
    await uses.settle(fake)
    return fake


@pytest.mark.parametrize("is_over", [False, True], ids=["running", "ended"])
async def test_a_use_that_is_created_again_over_its_children_has_their_run(is_over: bool) -> None:
    fake = await uses.world()
    await uses.settle(fake)
    run_id = annotations_of(fake)[labels.RUN_ID]
    if is_over:
        uses.end(fake)
        await uses.settle(fake)
    create_again(fake)
    await uses.settle(fake)
    assert status(fake)["runId"] == annotations_of(fake, MISSION)[labels.RUN_ID] == run_id
    assert uses.metadata(fake, MISSION)["ownerReferences"][0]["uid"] == uses.metadata(fake)["uid"]
    if not is_over:
        assert status(fake)["phase"] == "Running"
        uses.end(fake)
        await uses.settle(fake)
    assert (status(fake)["phase"], status(fake)["outcome"]) == ("Succeeded", "Succeeded")
    told = [e["message"] for e in fake.cluster.events if e["reason"] == "RunTakenOver"]
    assert told == [f"run {run_id} of Mission/demo/use continues as the run of this object"]


async def test_a_use_that_is_created_again_can_run_again() -> None:
    fake = await uses.world()
    await uses.settle(fake)
    uses.end(fake, "Failed")
    await uses.settle(fake)
    create_again(fake)
    await uses.settle(fake)
    annotate(fake, rerun="once more")
    await uses.settle(fake)
    second = names.run_id(uses.metadata(fake)["uid"], "once more")
    assert (status(fake)["phase"], status(fake)["runId"]) == ("Running", second)
    assert annotations_of(fake, MISSION)["kais.io/rerun"] == "once more"


async def test_a_replaced_use_keeps_the_run_that_was_asked_for_last() -> None:
    fake = await rerun()
    second = annotations_of(fake)[labels.RUN_ID]
    replace(fake)
    await uses.settle(fake)
    assert annotations_of(fake)[labels.RUN_ID] == second
    assert annotations_of(fake)["kais.io/rerun-taken"] == "2"
    assert (status(fake)["phase"], status(fake)["outcome"]) == ("Succeeded", "Succeeded")


async def test_a_rerun_that_the_new_file_asks_for_begins() -> None:
    fake = await rerun()
    replace(fake)
    annotate(fake, rerun="3")
    await uses.settle(fake)
    assert status(fake)["runId"] == names.run_id(uses.metadata(fake)["uid"], "3")
    assert status(fake)["phase"] == "Running"


async def test_a_use_that_is_replaced_while_its_mission_runs_keeps_its_revision() -> None:
    fake = await uses.world()
    await uses.settle(fake)
    before = fake.cluster.read(FORMATION)["spec"]
    formation = blueprints.blueprint()["spec"]["formation"]
    formation["cells"][0]["spec"]["container"]["image"] = "worker:2"
    await uses.edit_head(fake, formation=formation)
    replace(fake)
    await uses.settle(fake)
    assert fake.cluster.read(FORMATION)["spec"] == before
    assert status(fake)["revisionInUse"] == 1
    assert uses.metadata(fake)["labels"]["kais.io/revision"] == "1"


async def test_a_team_without_a_mission_keeps_its_revision_when_its_use_is_replaced() -> None:
    fake = await uses.world(head=blueprints.blueprint(mission=None))
    await uses.settle(fake)
    before, record = fake.cluster.read(FORMATION)["spec"], annotations_of(fake)
    formation = blueprints.blueprint()["spec"]["formation"]
    formation["cells"][0]["spec"]["container"]["image"] = "worker:2"
    await uses.edit_head(fake, formation=formation)
    replace(fake)
    await uses.settle(fake)
    assert fake.cluster.read(FORMATION)["spec"] == before
    assert status(fake)["revisionInUse"] == 1
    assert annotations_of(fake) == record


async def test_a_team_that_is_replaced_with_the_file_of_another_use_drops_its_annotations() -> None:
    kind = {"name": "kind", "type": "string", "default": "small", "immutable": True}
    parameters = [*blueprints.blueprint()["spec"]["parameters"], kind]
    fake = await uses.world(head=blueprints.blueprint(mission=None, parameters=parameters))
    await uses.settle(fake)
    record = annotations_of(fake)
    replace(fake)
    fixed = '{"kind": {"hash": "0", "shown": "large"}}'
    annotate(fake, run_id="other-run", run_object="other", fixed_parameters=fixed)
    await uses.settle(fake)
    assert annotations_of(fake) == record
    assert uses.condition(fake, "ParametersValid")[0] == "True"


async def test_the_mission_of_a_suspended_use_is_not_called_unstarted() -> None:
    fake = await uses.world()
    await uses.settle(fake)
    create_again(fake, suspend=True)
    await uses.settle(fake)
    assert status(fake)["phase"] == "Running"


async def test_nothing_is_written_while_the_use_is_suspended_as_a_whole() -> None:
    fake = await uses.world()
    await uses.settle(fake)
    replace(fake)
    annotate(fake, reconcile="suspended")
    await uses.settle(fake)
    assert labels.RUN_ID not in annotations_of(fake)


async def test_the_run_of_a_mission_that_others_made_is_left_to_them() -> None:
    fake = await uses.world()
    await uses.settle(fake)
    run_id = annotations_of(fake)[labels.RUN_ID]
    create_again(fake)
    fake.cluster.edit(MISSION, {"metadata": {"labels": {labels.INSTANCE: None}}})
    await uses.settle(fake)
    assert annotations_of(fake).get(labels.RUN_ID) != run_id
    assert uses.condition(fake, "Applied")[1] == "NameTaken"
