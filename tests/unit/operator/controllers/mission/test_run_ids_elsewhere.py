"""Run ids are unique in a realm: a run of the same id in another one neither blocks nor is read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kais import labels, names
from kais_operator.apply import executor
from kais_operator.controllers.outbox import observe as outbox
from kais_operator.controllers.outbox.decide import outbox as decide_outbox
from kais_operator.planning import plan as plans
from kais_operator.planning.plan import ObjectRef, Plan
from knowledge_client import errors, models
from tests.fakes import saved_manifests, teams, uses
from tests.fakes.outbox_names import kept_as
from tests.fakes.teams import MISSION, condition, status
from tests.fakes.world import FakeWorld, restarted

FAR = ObjectRef("Mission", "other", "doctor")
KINDS = pytest.mark.parametrize("kind", ["mission", "session"])


async def open_elsewhere(fake: FakeWorld, run_id: str, **fields: Any) -> models.Run:
    """Open a run of that id in another realm."""
    run = models.RunIn.model_validate(
        {"kind": "mission", "namespace": "other", "scope": "realm:other", **fields}
    )
    return await fake.knowledge.put_run(run_id, run)


def assert_untouched(fake: FakeWorld, run: models.Run) -> None:
    realm = fake.knowledge.realms["other"]
    assert realm.runs == {run.run_id: run}
    assert not realm.episodes
    assert not realm.extractions


@KINDS
@pytest.mark.parametrize("outcome", [None, "Failed"])
async def test_a_mission_runs_and_is_recorded_though_another_realm_took_its_run_id_before(
    kind: str, outcome: str | None
) -> None:
    fake = await teams.ready_world()
    run_id = names.run_id(fake.cluster.read(MISSION)["metadata"]["uid"])
    run = await open_elsewhere(fake, run_id, kind=kind, outcome=outcome)
    await teams.settle(fake)
    teams.succeed(fake)
    await teams.settle(fake)
    assert (status(fake)["runId"], status(fake)["outcome"]) == (run_id, "Succeeded")
    assert condition(fake, "Recorded")[0] == "True"
    assert fake.knowledge.runs[run_id].outcome == "Succeeded"
    assert run_id in fake.knowledge.extractions
    assert_untouched(fake, run)


@KINDS
async def test_a_restarted_operator_asks_for_the_missions_own_run(kind: str) -> None:
    fake = await teams.started()
    run_id = status(fake)["runId"]
    run = await open_elsewhere(fake, run_id, kind=kind, outcome="Failed")
    teams.succeed(fake)
    fake = restarted(fake)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Succeeded"
    assert condition(fake, "Recorded")[0] == "True"
    assert_untouched(fake, run)


async def test_two_missions_of_one_run_id_in_two_realms_both_run_with_what_they_recalled() -> None:
    fake = await teams.started()
    run_id = status(fake)["runId"]
    fake.cluster.put(teams.team(metadata={"namespace": "other"}))
    await teams.settle_team(fake, ObjectRef("Formation", "other", "team"))
    saved_manifests.apply_copy(fake, MISSION, namespace="other")
    fake.cluster.edit(FAR, {"metadata": {"annotations": saved_manifests.mark(FAR)}})
    await teams.settle(fake, FAR)
    assert saved_manifests.annotations_of(fake, FAR)[labels.RUN_ID] == run_id
    assert fake.knowledge.realms["other"].runs[run_id].outcome is None
    maps = [ref for ref in fake.cluster.refs("ConfigMap") if labels.RECEIPT in annotated(fake, ref)]
    receipts = {ref.namespace: annotated(fake, ref)[labels.RECEIPT] for ref in maps}
    assert receipts == {"demo": "receipt-1", "other": "receipt-2"}
    teams.succeed(fake)
    await teams.settle(fake)
    assert condition(fake, "Recorded")[0] == "True"
    assert fake.knowledge.realms["other"].runs[run_id].outcome is None


def annotated(fake: FakeWorld, ref: ObjectRef) -> dict[str, str]:
    return saved_manifests.annotations_of(fake, ref)


async def test_what_the_store_took_or_refused_of_a_run_says_nothing_of_another_realms() -> None:
    fake = await teams.ready_world()
    run = models.RunIn(kind="mission", namespace="other", scope="realm:other", outcome="Cancelled")
    line = models.EpisodeIn(type="message", content="m")
    calls = (
        plans.PutRun("r", run),
        plans.RequestExtraction("r", "other"),
        plans.RecordEpisodes("r", "other", (line,)),
    )
    await executor.execute(Plan(calls), fake.world)
    problem = models.Problem(title="invalid", status=422, detail="too long", code="invalid")
    fake.knowledge.refusals["put_run"] = errors.InvalidRequest("too long", problem=problem)
    await executor.execute(Plan((plans.PutRun("r", run),)), fake.world)
    memory = fake.sync_state
    for namespace, is_expected in (("other", True), ("demo", False)):
        assert memory.is_run_open(namespace, "r") is is_expected
        assert memory.is_run_closed(namespace, "r") is is_expected
        assert memory.is_extraction_accepted(namespace, "r") is is_expected
        assert (memory.refusal(plans.run_key(namespace, "r")) is not None) is is_expected


async def test_an_outbox_reaches_the_run_of_the_missions_own_realm() -> None:
    fake = await teams.started()
    run_id = status(fake)["runId"]
    run = await open_elsewhere(fake, run_id)
    fake.knowledge.away = True
    fake.cluster.remove(MISSION)
    await teams.passes(fake)
    fake.clock.advance(400)
    await teams.passes(fake)
    assert MISSION not in fake.cluster.refs()
    fake.knowledge.away = False
    reference = ObjectRef("ConfigMap", "kais-system", kept_as(run_id))
    assert reference in fake.cluster.refs()
    await fake.step(outbox.CONTROLLER, ObjectRef(outbox.KIND, reference.namespace, reference.name))
    assert reference not in fake.cluster.refs()
    assert fake.knowledge.runs[run_id].outcome == "Cancelled"
    assert fake.knowledge.episodes[run_id]
    assert run_id in fake.knowledge.extractions
    assert_untouched(fake, run)


async def test_an_outbox_of_an_older_version_that_names_no_namespace_is_sent() -> None:
    fake = await teams.started()
    run_id = status(fake)["runId"]
    fake.knowledge.away = True
    fake.cluster.remove(MISSION)
    await teams.passes(fake)
    fake.clock.advance(400)
    await teams.passes(fake)
    reference = ObjectRef("ConfigMap", "kais-system", kept_as(run_id))
    calls = json.loads(fake.cluster.read(reference)["data"][decide_outbox.KEY])
    for call in calls:
        call.pop("namespace", None)
    fake.cluster.edit(reference, {"data": {decide_outbox.KEY: json.dumps(calls)}})
    fake.knowledge.away = False
    await fake.step(outbox.CONTROLLER, ObjectRef(outbox.KIND, reference.namespace, reference.name))
    assert reference not in fake.cluster.refs()
    assert fake.knowledge.episodes[run_id]
    assert run_id in fake.knowledge.extractions


async def test_an_unreadable_mission_that_is_deleted_closes_its_own_run() -> None:
    fake = await teams.started()
    run_id = status(fake)["runId"]
    run = await open_elsewhere(fake, run_id)
    fake.cluster.edit(MISSION, {"spec": {"completion": {"timeout": "soon"}}})
    fake.cluster.remove(MISSION)
    await teams.passes(fake)
    assert MISSION not in fake.cluster.refs()
    assert fake.knowledge.runs[run_id].outcome == "Cancelled"
    assert_untouched(fake, run)


async def test_the_end_of_a_mission_that_is_gone_is_looked_up_in_its_own_realm() -> None:
    fake = await uses.world()
    await uses.settle(fake)
    run_id = uses.metadata(fake)["annotations"][labels.RUN_ID]
    fake.cluster.vanish(uses.MISSION)
    ended = models.RunIn(namespace="demo", scope="realm:demo", outcome="Cancelled")
    await fake.knowledge.put_run(run_id, ended)
    await open_elsewhere(fake, run_id, outcome="Succeeded", instance="use")
    await uses.settle(fake)
    assert uses.metadata(fake)["annotations"][labels.OUTCOME] == "Cancelled"


@pytest.mark.parametrize("has_lost_its_run", [True, False])
async def test_a_session_elsewhere_makes_no_copy_of_a_restored_mission_of_an_older_version(
    has_lost_its_run: bool,
) -> None:
    fake = await teams.ended()
    run_id = saved_manifests.annotations_of(fake, MISSION)[labels.RUN_ID]
    saved_manifests.unmark(fake, MISSION)
    saved_manifests.restore(fake, MISSION)
    fake.cluster.collect_garbage()
    if has_lost_its_run:
        fake.knowledge.runs.clear()
    await open_elsewhere(fake, run_id, kind="session")
    fake = restarted(fake)
    await teams.settle(fake)
    assert saved_manifests.annotations_of(fake, MISSION)[labels.RUN_ID] == run_id
    assert fake.cluster.refs("Job") == []


async def test_a_copy_of_a_mission_of_an_older_version_in_another_namespace_runs() -> None:
    fake = await teams.ended()
    saved_manifests.unmark(fake, MISSION)
    saved_manifests.apply_copy(fake, MISSION, namespace="other")
    fake.cluster.put(teams.team(metadata={"namespace": "other"}))
    await teams.settle_team(fake, ObjectRef("Formation", "other", "team"))
    await teams.settle(fake, FAR)
    own_run_id = names.run_id(fake.cluster.read(FAR)["metadata"]["uid"])
    assert saved_manifests.annotations_of(fake, FAR)[labels.RUN_ID] == own_run_id
    assert [ref.name for ref in fake.cluster.refs("Job") if ref.namespace == "other"]
