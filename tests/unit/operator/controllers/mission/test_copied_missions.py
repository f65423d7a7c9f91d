"""A copied Mission has a run of its own; a restored one keeps its run, an older one too."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from kais import labels, names
from kais_operator.controllers.outbox import observe as outbox
from kais_operator.planning.plan import ObjectRef
from knowledge_client.errors import KnowledgeUnavailable
from tests.fakes import saved_manifests, teams
from tests.fakes.outbox_names import kept_as
from tests.fakes.teams import MISSION, job_ref
from tests.fakes.world import FakeWorld, fake_world, restarted

COPY = ObjectRef("Mission", "demo", "copy")


def run_of(fake: FakeWorld, ref: ObjectRef = MISSION) -> str:
    return saved_manifests.annotations_of(fake, ref)[labels.RUN_ID]


def jobs(fake: FakeWorld, namespace: str = "demo") -> dict[str, str]:
    """The run of each Job, by the Job's name."""
    references = [ref for ref in fake.cluster.refs("Job") if ref.namespace == namespace]
    return {
        ref.name: fake.cluster.read(ref)["metadata"]["annotations"][labels.RUN_ID]
        for ref in references
    }


def outcome(fake: FakeWorld, ref: ObjectRef) -> Any:
    return fake.cluster.read(ref)["status"].get("outcome")


async def test_a_copy_of_a_mission_that_runs_has_a_run_and_a_job_of_its_own() -> None:
    fake = await teams.started()
    saved_manifests.apply_copy(fake, MISSION, name="copy")
    await teams.settle(fake, COPY)
    own_run_id = names.run_id(fake.cluster.read(COPY)["metadata"]["uid"])
    assert run_of(fake, COPY) == own_run_id != run_of(fake)
    assert jobs(fake) == {"doctor-a1": run_of(fake), "copy-a1": own_run_id}
    assert {r: run.mission for r, run in fake.knowledge.runs.items()} == {
        run_of(fake): "doctor",
        own_run_id: "copy",
    }


async def test_a_copy_of_a_mission_that_ended_runs_and_says_nothing_of_its_original() -> None:
    fake = await teams.ended()
    saved_manifests.apply_copy(fake, MISSION, name="copy")
    await teams.settle(fake, COPY)
    assert jobs(fake)["copy-a1"] == run_of(fake, COPY) != run_of(fake)
    assert outcome(fake, COPY) is None
    carried = saved_manifests.annotations_of(fake, COPY)
    assert not {labels.OUTCOME, labels.ENDING, labels.ATTEMPTS} & carried.keys()


async def test_a_copy_of_a_mission_that_was_aborted_and_run_again_is_a_first_run() -> None:
    fake = await teams.ended()
    fake.cluster.edit(MISSION, {"metadata": {"annotations": {labels.RERUN: "n1"}}})
    await teams.passes(fake)
    fake.cluster.collect_garbage()
    fake.cluster.edit(MISSION, {"metadata": {"annotations": {labels.ABORT: "enough"}}})
    await teams.passes(fake, 6)
    saved_manifests.apply_copy(fake, MISSION, name="copy")
    await teams.settle(fake, COPY)
    assert outcome(fake, MISSION) == "Cancelled"
    assert outcome(fake, COPY) is None
    assert jobs(fake)["copy-a1"] == run_of(fake, COPY)
    assert labels.EARLIER_RUNS not in saved_manifests.annotations_of(fake, COPY)


async def test_a_copy_in_another_namespace_has_a_run_of_its_own() -> None:
    fake = await teams.ended()
    team = teams.team()
    team["metadata"]["namespace"] = "other"
    fake.cluster.put(team)
    await teams.settle_team(fake, ObjectRef("Formation", "other", "team"))
    ref = saved_manifests.apply_copy(fake, MISSION, namespace="other")
    await teams.settle(fake, ref)
    assert jobs(fake, "other") == {"doctor-a1": run_of(fake, ref)}
    assert run_of(fake, ref) != run_of(fake)


@pytest.mark.parametrize("is_marked", [True, False], ids=["bound", "of an older version"])
async def test_a_copy_of_a_uses_mission_does_not_take_the_run_of_the_use(is_marked: bool) -> None:
    owner = {
        "apiVersion": "kais.io/v1",
        "kind": "BlueprintInstance",
        "name": "doctor",
        "uid": "uid-of-use",
        "controller": True,
    }
    fake = await teams.started(teams.work(metadata={"ownerReferences": [owner]}))
    if not is_marked:
        saved_manifests.unmark(fake, MISSION)
    far = saved_manifests.apply_copy(fake, MISSION, namespace="other")
    saved_manifests.apply_copy(fake, MISSION, name="copy")
    for ref in (COPY, far):
        await teams.pass_(fake, ref)
        uid = fake.cluster.read(ref)["metadata"]["uid"]
        assert run_of(fake, ref) == names.run_id(uid), ref
    result = {labels.ABORT: "enough", labels.RERUN: "n1"}
    fake.cluster.edit(COPY, {"metadata": {"annotations": result}})
    for _ in range(8):
        await teams.pass_(fake, COPY)
    assert run_of(fake, COPY) == names.run_id(fake.cluster.read(COPY)["metadata"]["uid"], "n1")


async def test_a_copy_that_is_deleted_at_once_ends_nobody_elses_run() -> None:
    fake = await teams.started()
    saved_manifests.apply_copy(fake, MISSION, name="copy")
    fake.cluster.remove(COPY)
    for _ in range(4):
        await teams.pass_(fake, COPY)
    assert COPY not in fake.cluster.refs()
    assert [run.outcome for run in fake.knowledge.runs.values()] == [None]


async def test_an_unreadable_copy_that_is_deleted_ends_nobody_elses_run() -> None:
    fake = await teams.started()
    saved_manifests.apply_copy(fake, MISSION, name="copy")
    fake.cluster.edit(COPY, {"spec": {"completion": {"timeout": "soon"}}})
    await teams.pass_(fake, COPY)
    fake.cluster.remove(COPY)
    await teams.pass_(fake, COPY)
    assert COPY not in fake.cluster.refs()
    assert [run.outcome for run in fake.knowledge.runs.values()] == [None]


@pytest.mark.parametrize("is_marked", [True, False], ids=["bound", "of an older version"])
async def test_a_restored_mission_keeps_its_run_and_runs_nothing_again(is_marked: bool) -> None:
    fake = await teams.ended()
    first = run_of(fake)
    if not is_marked:
        saved_manifests.unmark(fake, MISSION)
    fake.cluster.collect_garbage()
    saved_manifests.restore(fake, MISSION)
    fake.cluster.collect_garbage()
    fake = restarted(fake)
    await teams.settle(fake)
    assert (run_of(fake), outcome(fake, MISSION)) == (first, "Succeeded")
    assert jobs(fake) == {}


async def test_an_upgrade_while_a_mission_runs_starts_no_second_job_and_binds_its_stamp() -> None:
    fake = await teams.started()
    first = run_of(fake)
    saved_manifests.unmark(fake, MISSION)
    fake = restarted(fake)
    await teams.settle(fake)
    assert jobs(fake) == {"doctor-a1": first}
    assert saved_manifests.annotations_of(fake, MISSION)[labels.RUN_OBJECT]
    saved_manifests.apply_copy(fake, MISSION, name="copy")
    await teams.settle(fake, COPY)
    assert run_of(fake, COPY) != first


async def test_an_older_stamp_on_a_restored_mission_is_bound_by_its_job() -> None:
    fake = await teams.started()
    first = run_of(fake)
    saved_manifests.unmark(fake, MISSION)
    job = fake.cluster.read(job_ref())
    del job["metadata"]["ownerReferences"]
    saved_manifests.restore(fake, MISSION)
    fake.cluster.put({**job, "metadata": {**job["metadata"], "ownerReferences": []}})
    fake.knowledge.runs.clear()
    fake = restarted(fake)
    await teams.settle(fake)
    assert jobs(fake) == {"doctor-a1": first}
    assert run_of(fake) == first


async def test_an_older_copy_that_shares_the_run_goes_on_with_the_job_that_it_has() -> None:
    """As the version before made it: a Job of its own with the run of its original."""
    fake = await teams.started()
    first = run_of(fake)
    saved_manifests.apply_copy(fake, MISSION, name="copy")
    fake.cluster.edit(COPY, {"metadata": {"annotations": saved_manifests.mark(COPY)}})
    await teams.settle(fake, COPY)
    assert jobs(fake) == {"doctor-a1": first, "copy-a1": first}
    for ref in (MISSION, COPY):
        saved_manifests.unmark(fake, ref)
    fake = restarted(fake)
    await teams.settle(fake)
    await teams.settle(fake, COPY)
    assert jobs(fake) == {"doctor-a1": first, "copy-a1": first}
    teams.end_job(fake, condition="Complete")
    await teams.settle(fake)
    await teams.settle(fake, COPY)
    assert jobs(fake) == {"doctor-a1": first, "copy-a1": first}


async def test_an_older_stamp_that_the_ledger_gives_to_another_mission_is_a_copy() -> None:
    fake = await teams.ended()
    saved_manifests.unmark(fake, MISSION)
    saved_manifests.apply_copy(fake, MISSION, name="copy")
    await teams.settle(fake, COPY)
    assert jobs(fake)["copy-a1"] == run_of(fake, COPY) != run_of(fake)


async def test_an_older_stamp_waits_for_a_store_that_is_away_and_says_so() -> None:
    fake = await teams.ended()
    saved_manifests.unmark(fake, MISSION)
    saved_manifests.apply_copy(fake, MISSION, name="copy")
    fake.knowledge.away = True
    plan = await teams.pass_(fake, COPY)
    status, reason, message = teams.condition(fake, "Succeeded", COPY)
    assert (status, reason) == ("False", "StoreUnavailable")
    assert message.startswith("whose run kais.io/run-id names is not known: an older version ")
    assert plan.requeue_after.total_seconds() == 30
    assert "copy-a1" not in jobs(fake)
    fake.knowledge.away = False
    await teams.settle(fake, COPY)
    assert jobs(fake)["copy-a1"] == run_of(fake, COPY) != run_of(fake)


async def test_an_older_copy_that_is_deleted_without_the_store_ends_nobody_elses_run() -> None:
    fake = await teams.started()
    first = run_of(fake)
    saved_manifests.unmark(fake, MISSION)
    saved_manifests.apply_copy(fake, MISSION, name="copy")
    fake.knowledge.away = True
    fake.cluster.remove(COPY)
    with contextlib.suppress(KnowledgeUnavailable):
        await teams.pass_(fake, COPY)
    fake.clock.advance(400)
    await teams.pass_(fake, COPY)
    assert COPY not in fake.cluster.refs()
    fake.knowledge.away = False
    reference = ObjectRef(outbox.KIND, "kais-system", kept_as(first))
    await fake.step(outbox.CONTROLLER, reference)
    assert fake.cluster.refs("ConfigMap")[-1].name != reference.name
    assert [run.outcome for run in fake.knowledge.runs.values()] == [None]


async def test_an_upgrade_asks_no_store_about_a_stamp_that_the_objects_uid_proves() -> None:
    fake = fake_world(teams.work())
    await teams.settle(fake)
    saved_manifests.unmark(fake, MISSION)
    fake = restarted(fake)
    fake.knowledge.away = True
    fake.cluster.put(teams.team())
    await teams.passes(fake, 2)
    assert teams.condition(fake, "Succeeded")[1] != "StoreUnavailable"
    assert saved_manifests.annotations_of(fake, MISSION)[labels.RUN_OBJECT]
