"""A copied BlueprintInstance has its own run; a restored one keeps its run, an older one too."""

from __future__ import annotations

import pytest

from kais import labels, names
from kais_operator.controllers.blueprint_instance import observe as blueprint_instance
from kais_operator.planning.plan import ObjectRef
from knowledge_client import models
from tests.fakes import blueprints, saved_manifests, uses
from tests.fakes.uses import MISSION, USE
from tests.fakes.world import FakeWorld, restarted

COPY = ObjectRef("BlueprintInstance", "demo", "copy")
FAR = ObjectRef("BlueprintInstance", "other", "use")


async def settle(fake: FakeWorld, ref: ObjectRef) -> None:
    await fake.settle(blueprint_instance.CONTROLLER, ref)


def run_of(fake: FakeWorld, ref: ObjectRef = USE) -> str:
    return saved_manifests.annotations_of(fake, ref)[labels.RUN_ID]


def mission_of(ref: ObjectRef) -> ObjectRef:
    return ObjectRef("Mission", ref.namespace, ref.name)


async def used(*, is_over: bool) -> FakeWorld:
    """A use whose run goes on, or has succeeded; the ledger has the run as its Mission tells it."""
    fake = await uses.world()
    await uses.settle(fake)
    run = models.RunIn(
        kind="mission",
        namespace="demo",
        scope="realm:demo/formation:team",
        mission="use",
        instance="use",
        outcome="Succeeded" if is_over else None,
    )
    await fake.knowledge.put_run(run_of(fake), run)
    if is_over:
        uses.end(fake)
        await uses.settle(fake)
    return fake


@pytest.mark.parametrize("is_over", [False, True], ids=["running", "ended"])
async def test_a_copy_has_a_run_and_a_mission_of_its_own(is_over: bool) -> None:
    fake = await used(is_over=is_over)
    saved_manifests.apply_copy(fake, USE, name="copy")
    await settle(fake, COPY)
    own_run_id = names.run_id(fake.cluster.read(COPY)["metadata"]["uid"])
    assert run_of(fake, COPY) == own_run_id != run_of(fake)
    assert run_of(fake, mission_of(COPY)) == own_run_id
    assert labels.OUTCOME not in saved_manifests.annotations_of(fake, mission_of(COPY))
    assert fake.cluster.read(COPY)["status"]["phase"] == "Running"


async def test_a_copy_in_another_namespace_has_a_run_of_its_own() -> None:
    fake = await used(is_over=True)
    fake.cluster.put(blueprints.blueprint(namespace="other"))
    await fake.settle(uses.blueprint.CONTROLLER, ObjectRef("Blueprint", "other", "team"))
    saved_manifests.apply_copy(fake, USE, namespace="other")
    await settle(fake, FAR)
    assert run_of(fake, FAR) == run_of(fake, mission_of(FAR)) != run_of(fake)
    assert fake.cluster.read(FAR)["status"]["phase"] == "Running"


async def test_a_copy_stands_on_the_revision_that_serves_when_its_own_run_begins() -> None:
    fake = await used(is_over=True)
    await uses.edit_head(fake, description="another one")
    saved_manifests.apply_copy(fake, USE, name="copy")
    await settle(fake, COPY)
    assert uses.metadata(fake)["labels"]["kais.io/revision"] == "1"
    assert uses.metadata(fake, COPY)["labels"]["kais.io/revision"] == "2"


async def test_a_copy_may_differ_in_what_was_immutable_in_its_original() -> None:
    kind = {"name": "kind", "type": "string", "default": "small", "immutable": True}
    parameters = [*blueprints.blueprint()["spec"]["parameters"], kind]
    fake = await uses.world(head=blueprints.blueprint(parameters=parameters))
    await uses.settle(fake)
    saved_manifests.apply_copy(fake, USE, name="copy")
    fake.cluster.edit(COPY, {"spec": {"parameters": {"kind": "large"}}})
    await settle(fake, COPY)
    fields = {c["type"]: c["status"] for c in fake.cluster.read(COPY)["status"]["conditions"]}
    assert fields["ParametersValid"] == "True"


async def test_a_copy_of_a_use_without_a_mission_is_a_use_of_its_own() -> None:
    fake = await uses.world(head=blueprints.blueprint(mission=None))
    await uses.settle(fake)
    saved_manifests.apply_copy(fake, USE, name="copy")
    await settle(fake, COPY)
    assert {run.instance for run in fake.knowledge.runs.values()} == {"use", "copy"}
    assert len(fake.knowledge.runs) == 2


@pytest.mark.parametrize("is_marked", [True, False], ids=["bound", "of an older version"])
async def test_a_restored_use_keeps_its_run_and_runs_nothing_again(is_marked: bool) -> None:
    fake = await used(is_over=True)
    first = run_of(fake)
    if not is_marked:
        saved_manifests.unmark(fake, USE)
        saved_manifests.unmark(fake, MISSION)
    saved_manifests.restore(fake, USE)
    fake.cluster.collect_garbage()
    fake.cluster.vanish(MISSION)
    fake = restarted(fake)
    await uses.settle(fake)
    assert (run_of(fake), fake.cluster.read(USE)["status"]["outcome"]) == (first, "Succeeded")
    assert saved_manifests.annotations_of(fake, MISSION)[labels.OUTCOME] == "Succeeded"


async def test_an_upgrade_while_a_use_runs_begins_no_other_run_and_binds_its_stamp() -> None:
    fake = await used(is_over=False)
    first = run_of(fake)
    saved_manifests.unmark(fake, USE)
    saved_manifests.unmark(fake, MISSION)
    fake = restarted(fake)
    await uses.settle(fake)
    assert (run_of(fake), run_of(fake, MISSION)) == (first, first)
    assert (
        saved_manifests.annotations_of(fake, USE)[labels.RUN_OBJECT]
        == saved_manifests.mark(USE)[labels.RUN_OBJECT]
    )


async def test_an_upgrade_writes_nothing_onto_a_use_that_has_ended() -> None:
    fake = await used(is_over=True)
    saved_manifests.unmark(fake, USE)
    initial_count = len(fake.cluster.writes)
    await uses.settle(restarted(fake))
    assert len(fake.cluster.writes) == initial_count


async def test_an_older_stamp_that_the_ledger_gives_to_another_use_is_a_copy() -> None:
    fake = await used(is_over=True)
    saved_manifests.unmark(fake, USE)
    saved_manifests.apply_copy(fake, USE, name="copy")
    await settle(fake, COPY)
    assert run_of(fake, COPY) == run_of(fake, mission_of(COPY)) != run_of(fake)


async def copied_with_its_mission() -> FakeWorld:
    """Copies of a use and its Mission in another namespace, which an older version stamped."""
    fake = await used(is_over=True)
    fake.cluster.put(blueprints.blueprint(namespace="other"))
    await fake.settle(uses.blueprint.CONTROLLER, ObjectRef("Blueprint", "other", "team"))
    for ref in (USE, MISSION):
        saved_manifests.unmark(fake, ref)
        saved_manifests.apply_copy(fake, ref, namespace="other")
    fake.cluster.edit(mission_of(FAR), {"metadata": {"ownerReferences": None}})
    return fake


async def test_a_copy_takes_no_run_over_from_a_copied_mission_with_an_older_stamp() -> None:
    fake = await copied_with_its_mission()
    await settle(fake, FAR)
    assert run_of(fake, FAR) == names.run_id(fake.cluster.read(FAR)["metadata"]["uid"])
    assert fake.cluster.read(FAR)["status"]["phase"] == "Running"


async def test_a_use_without_a_record_takes_over_a_run_that_an_older_version_stamped() -> None:
    fake = await used(is_over=True)
    first = run_of(fake)
    saved_manifests.unmark(fake, MISSION)
    fake.cluster.vanish(USE)
    fake.cluster.edit(MISSION, {"metadata": {"ownerReferences": None}})
    fake.cluster.put(blueprints.instance())
    fake.knowledge.away = True
    await fake.step(blueprint_instance.CONTROLLER, USE)
    assert labels.RUN_ID not in saved_manifests.annotations_of(fake, USE)
    (ready,) = fake.cluster.read(USE)["status"]["conditions"]
    assert (ready["status"], ready["reason"]) == ("False", "StoreUnavailable")
    assert ready["message"].startswith("Mission/demo/use: whose run kais.io/run-id names is not ")
    fake.knowledge.away = False
    await settle(fake, USE)
    assert (run_of(fake), fake.cluster.read(USE)["status"]["outcome"]) == (first, "Succeeded")


async def test_an_older_stamp_waits_for_a_store_that_is_away_and_says_so() -> None:
    fake = await used(is_over=True)
    saved_manifests.unmark(fake, USE)
    saved_manifests.apply_copy(fake, USE, name="copy")
    fake.knowledge.away = True
    plan = await fake.step(blueprint_instance.CONTROLLER, COPY)
    (ready,) = fake.cluster.read(COPY)["status"]["conditions"]
    assert (ready["status"], ready["reason"]) == ("False", "StoreUnavailable")
    assert ready["message"].startswith("whose run kais.io/run-id names is not known: an older ")
    assert plan is not None
    assert plan.requeue_after is not None
    assert mission_of(COPY) not in fake.cluster.refs()
    fake.knowledge.away = False
    await settle(fake, COPY)
    assert run_of(fake, COPY) != run_of(fake)


@pytest.mark.parametrize(("field", "value"), [("namespace", "other"), ("instance", "another")])
async def test_the_end_of_a_run_of_another_use_says_nothing_of_this_one(
    field: str, value: str
) -> None:
    fake = await used(is_over=False)
    run = fake.knowledge.runs.pop(run_of(fake))
    changed = run.model_copy(update={field: value, "outcome": "Failed"})
    fake.knowledge.realms[changed.namespace].runs[run_of(fake)] = changed
    fake.cluster.vanish(MISSION)
    await uses.settle(fake)
    assert labels.OUTCOME not in saved_manifests.annotations_of(fake, USE)
