"""Further runs of one use, and its cells between them."""

import json

import pytest

from kais import names
from kais_operator.controllers.blueprint_instance import observe as blueprint_instance
from kais_operator.controllers.blueprint_instance.decide import instance_run
from kais_operator.planning.plan import Body
from tests.fakes import blueprints, uses
from tests.fakes.uses import FORMATION, MISSION, USE, annotate, annotations_of, condition, status
from tests.fakes.world import FakeWorld


async def ended(*bodies: Body, head: Body | None = None, outcome: str = "Succeeded") -> FakeWorld:
    fake = await uses.world(*bodies, head=head)
    await uses.settle(fake)
    uses.end(fake, outcome)
    await uses.settle(fake)
    return fake


def run_begun_events(fake: FakeWorld) -> list[str]:
    return [e["message"] for e in fake.cluster.events if e["reason"] == "RunBegun"]


async def test_a_rerun_is_a_new_run_of_the_same_use_and_of_its_mission() -> None:
    fake = await ended(outcome="Failed")
    first = annotations_of(fake)["kais.io/run-id"]
    mission_uid = uses.metadata(fake, MISSION)["uid"]
    annotate(fake, rerun="once more")
    await uses.settle(fake)
    second = names.run_id(uses.metadata(fake)["uid"], "once more")
    own_annotations = annotations_of(fake)
    assert second != first
    assert own_annotations["kais.io/run-id"] == second
    assert own_annotations["kais.io/rerun-taken"] == "once more"
    assert "kais.io/outcome" not in own_annotations
    assert annotations_of(fake, MISSION)["kais.io/rerun"] == "once more"
    assert uses.metadata(fake, MISSION)["uid"] == mission_uid
    assert (status(fake)["phase"], status(fake)["runId"]) == ("Running", second)
    assert status(fake)["acknowledged"] == {"rerun": "once more"}
    assert run_begun_events(fake)[1:] == [f"run {second} begins again on revision 1"]

    uses.run_again(fake)
    await uses.settle(fake)
    assert status(fake)["phase"] == "Running"
    uses.end(fake)
    await uses.settle(fake)
    assert (status(fake)["phase"], status(fake)["outcome"]) == ("Succeeded", "Succeeded")


async def test_the_use_is_stamped_before_its_mission_is_told() -> None:
    fake = await ended()
    annotate(fake, rerun="2")
    count = len(fake.cluster.writes)
    await fake.step(blueprint_instance.CONTROLLER, USE)
    assert ("patch", USE) in fake.cluster.writes[count:]
    assert "kais.io/rerun" not in annotations_of(fake, MISSION)


async def test_a_crash_after_the_stamp_tells_the_mission_all_the_same() -> None:
    fake = await ended()
    annotate(fake, rerun="2")
    await fake.step(blueprint_instance.CONTROLLER, USE)
    fake.cluster.edit(USE, {"status": None})
    fake.sync_state.clear()
    await uses.settle(fake)
    assert annotations_of(fake, MISSION)["kais.io/rerun"] == "2"
    assert len(run_begun_events(fake)) == 2


async def test_a_run_that_its_mission_was_asked_for_is_the_uses_run_too() -> None:
    fake = await ended(outcome="Failed")
    first = annotations_of(fake)["kais.io/run-id"]
    annotate(fake, MISSION, rerun="by hand", earlier_runs=f'[{{"run": "{first}"}}]')
    uses.run_again(fake)
    await uses.settle(fake)
    second = annotations_of(fake, MISSION)["kais.io/run-id"]
    assert annotations_of(fake)["kais.io/run-id"] == second != first
    assert (status(fake)["phase"], status(fake)["runId"]) == ("Running", second)
    uses.end(fake)
    await uses.settle(fake)
    assert status(fake)["outcome"] == "Succeeded"
    assert len(run_begun_events(fake)) == 2


async def test_a_run_that_its_mission_was_asked_for_with_a_long_nonce_is_the_last_one() -> None:
    fake = await ended(outcome="Failed")
    first = annotations_of(fake)["kais.io/run-id"]
    annotate(fake, MISSION, rerun="x" * 300, earlier_runs=f'[{{"run": "{first}"}}]')
    uses.run_again(fake)
    uses.end(fake)
    await uses.settle(fake)
    assert (status(fake)["phase"], status(fake)["outcome"]) == ("Succeeded", "Succeeded")
    assert len(run_begun_events(fake)) == 2


async def test_the_nonce_of_a_run_before_is_no_new_wish_when_the_mission_ran_once_more() -> None:
    fake = await ended()
    annotate(fake, rerun="2")
    await uses.settle(fake)
    uses.run_again(fake)
    uses.end(fake)
    await uses.settle(fake)
    second = annotations_of(fake)["kais.io/run-id"]
    annotate(fake, MISSION, rerun="3", earlier_runs=f'[{{"run": "{second}"}}]')
    uses.run_again(fake)
    uses.end(fake)
    await uses.settle(fake)
    assert (
        annotations_of(fake)["kais.io/rerun"] == annotations_of(fake)["kais.io/rerun-taken"] == "3"
    )
    assert len(run_begun_events(fake)) == 3


async def test_the_mission_carries_the_values_of_its_run_for_the_ledger() -> None:
    head = blueprints.blueprint()
    head["spec"]["parameters"].append({"name": "text", "type": "string", "default": "x" * 600})
    fake = await uses.world(head=head)
    await uses.settle(fake)
    document = json.loads(annotations_of(fake, MISSION)["kais.io/parameters"])
    assert document == {"topic": "pods", "count": 1}, "defaults included, long ones left out"


async def test_the_same_nonce_begins_nothing_again() -> None:
    fake = await ended()
    annotate(fake, rerun="2")
    await uses.settle(fake)
    uses.run_again(fake)
    uses.end(fake)
    await uses.settle(fake)
    run_id = annotations_of(fake)["kais.io/run-id"]
    annotate(fake, rerun=None)
    await uses.settle(fake)
    annotate(fake, rerun="2")
    await uses.settle(fake)
    assert annotations_of(fake)["kais.io/run-id"] == run_id
    assert status(fake)["outcome"] == "Succeeded"


async def test_a_rerun_waits_until_the_present_run_has_ended() -> None:
    fake = await uses.world()
    await uses.settle(fake)
    first = annotations_of(fake)["kais.io/run-id"]
    annotate(fake, rerun="2")
    await uses.settle(fake)
    assert annotations_of(fake)["kais.io/run-id"] == first
    assert condition(fake, "Applied")[2].endswith(
        "; kais.io/rerun 2: it starts when the current run has ended"
    )
    uses.end(fake)
    await uses.settle(fake)
    assert annotations_of(fake)["kais.io/run-id"] != first


async def test_a_suspended_use_begins_no_further_run() -> None:
    fake = await ended()
    fake.cluster.edit(USE, {"spec": {"suspend": True}})
    annotate(fake, rerun="2")
    await uses.settle(fake)
    assert status(fake)["outcome"] == "Succeeded"
    assert condition(fake, "Applied")[2].endswith("; kais.io/rerun 2: spec.suspend holds it back")
    fake.cluster.edit(USE, {"spec": {"suspend": False}})
    await uses.settle(fake)
    assert status(fake)["phase"] == "Running"


async def test_a_nonce_that_was_there_from_the_start_begins_one_run() -> None:
    body = blueprints.instance()
    body["metadata"]["annotations"] = {"kais.io/rerun": "1"}
    fake = await ended(body)
    assert status(fake)["outcome"] == "Succeeded"
    assert len(run_begun_events(fake)) == 1


async def test_a_restored_use_that_was_run_again_is_not_run_again_once_more() -> None:
    fake = await ended()
    annotate(fake, rerun="2")
    await uses.settle(fake)
    uses.run_again(fake)
    uses.end(fake)
    await uses.settle(fake)
    stored_record = {key: fake.cluster.read(USE)[key] for key in ("apiVersion", "kind", "spec")}
    carried = {k: uses.metadata(fake)[k] for k in ("name", "namespace", "annotations", "labels")}
    fake.cluster.vanish(MISSION)
    fake.cluster.vanish(FORMATION)
    fake.cluster.vanish(USE)
    fake.cluster.put({**stored_record, "metadata": carried})
    await uses.settle(fake)
    assert status(fake)["outcome"] == "Succeeded"
    mission = annotations_of(fake, MISSION)
    assert mission["kais.io/outcome"] == "Succeeded"
    assert mission["kais.io/rerun-taken"] == mission["kais.io/rerun"] == "2"
    assert len(run_begun_events(fake)) == 2


async def test_a_rerun_with_new_parameters_makes_the_mission_anew() -> None:
    fake = await ended()
    fake.cluster.edit(USE, {"spec": {"parameters": {"topic": "nodes"}}})
    annotate(fake, rerun="2")
    await uses.settle(fake)
    assert fake.cluster.read(MISSION)["metadata"]["deletionTimestamp"]  # its record is kept first
    fake.cluster.edit(MISSION, {"metadata": {"finalizers": None}})
    await uses.settle(fake)
    mission = fake.cluster.read(MISSION)
    assert mission["spec"]["objective"] == "explain nodes"
    carried = mission["metadata"]["annotations"]
    assert carried["kais.io/run-id"] == annotations_of(fake)["kais.io/run-id"]
    assert carried["kais.io/rerun-taken"] == "2"
    assert "kais.io/outcome" not in carried


async def test_new_parameters_without_a_rerun_start_nothing_and_leave_the_mission() -> None:
    fake = await ended()
    initial_state = fake.cluster.read(MISSION)
    fake.cluster.edit(USE, {"spec": {"parameters": {"topic": "nodes", "count": 3}}})
    await uses.settle(fake)
    assert fake.cluster.read(MISSION) == initial_state
    assert fake.cluster.read(FORMATION)["spec"]["cells"][0]["replicas"] == 3
    assert status(fake)["outcome"] == "Succeeded"
    assert len(run_begun_events(fake)) == 1


async def test_a_use_without_a_mission_has_nothing_to_run_again() -> None:
    fake = await uses.world(head=blueprints.blueprint(mission=None))
    await uses.settle(fake)
    run_id = annotations_of(fake)["kais.io/run-id"]
    annotate(fake, rerun="2")
    await uses.settle(fake)
    assert annotations_of(fake)["kais.io/run-id"] == run_id
    assert condition(fake, "Applied")[2].endswith(
        "; kais.io/rerun 2: the Blueprint has no mission to run again"
    )
    assert len(fake.knowledge.runs) == 1


async def test_a_mission_that_a_later_revision_adds_waits_for_a_rerun() -> None:
    fake = await uses.world(head=blueprints.blueprint(mission=None))
    await uses.settle(fake)
    await uses.edit_head(fake, mission={"objective": "explain {{ topic }}"})
    fake.cluster.edit(USE, {"spec": {"blueprintRef": {"revision": 2}}})
    await uses.settle(fake)
    assert MISSION not in fake.cluster.refs()
    assert status(fake)["revisionInUse"] == 2
    annotate(fake, rerun="go")
    await uses.settle(fake)
    assert annotations_of(fake, MISSION)["kais.io/run-id"] == annotations_of(fake)["kais.io/run-id"]
    assert "kais.io/run-kind" not in annotations_of(fake)


async def test_a_mission_that_left_the_template_goes_when_its_run_has_ended() -> None:
    fake = await uses.world()
    await uses.settle(fake)
    await uses.edit_head(fake, mission=None)
    fake.cluster.edit(USE, {"spec": {"blueprintRef": {"revision": 2}}})
    await uses.settle(fake)
    assert "deletionTimestamp" not in uses.metadata(fake, MISSION), "the mission still runs"
    uses.end(fake)
    fake.cluster.edit(MISSION, {"metadata": {"finalizers": None}})
    await uses.settle(fake)
    assert MISSION not in fake.cluster.refs()
    assert (status(fake)["phase"], status(fake)["outcome"]) == ("Succeeded", "Succeeded")
    assert fake.knowledge.runs == {}, "an ended run is no session"


async def test_a_mission_of_that_name_that_is_not_ours_is_never_pruned() -> None:
    fake = await uses.world(head=blueprints.blueprint(mission=None))
    theirs = {"apiVersion": "kais.io/v1", "kind": "Mission", "spec": {"objective": "theirs"}}
    fake.cluster.put({**theirs, "metadata": {"name": "use", "namespace": "demo"}})
    annotate(fake, run_id="1", outcome="Succeeded")
    await uses.settle(fake)
    assert fake.cluster.read(MISSION)["spec"] == {"objective": "theirs"}
    assert ("delete", MISSION) not in fake.cluster.writes


SERVICES = {"formation": uses.SERVICE_TEAM}


@pytest.mark.parametrize("outcome", ["Succeeded", "Failed", "Cancelled"])
async def test_service_cells_rest_when_the_mission_has_ended(outcome: str) -> None:
    fake = await ended(head=blueprints.blueprint(**SERVICES), outcome=outcome)
    assert annotations_of(fake, FORMATION)["kais.io/scaled-down"] == "true"
    assert condition(fake, "CellsReady") == (
        "True",
        "ScaledDown",
        (
            "Formation/demo/use: the mission has ended, so its Service cells are scaled down"
            " (spec.afterMission)"
        ),
    )


async def test_service_cells_work_while_the_mission_runs_and_again_with_a_rerun() -> None:
    fake = await uses.world(head=blueprints.blueprint(**SERVICES))
    await uses.settle(fake)
    assert "kais.io/scaled-down" not in annotations_of(fake, FORMATION)
    uses.end(fake)
    await uses.settle(fake)
    annotate(fake, rerun="2")
    await uses.settle(fake)
    assert "kais.io/scaled-down" not in annotations_of(fake, FORMATION)


@pytest.mark.parametrize(
    ("head", "spec"),
    [
        pytest.param(SERVICES, {"afterMission": "Keep"}, id="who keeps them"),
        pytest.param({}, {}, id="task cells, which have no pods between missions"),
        pytest.param({**SERVICES, "mission": None}, {}, id="a use without a mission"),
    ],
)
async def test_cells_are_left_as_they_are(head: Body, spec: Body) -> None:
    fake = await uses.world(blueprints.instance(**spec), head=blueprints.blueprint(**head))
    await uses.settle(fake)
    if MISSION in fake.cluster.refs():
        uses.end(fake)
    await uses.settle(fake)
    assert "kais.io/scaled-down" not in annotations_of(fake, FORMATION)


async def test_cells_that_are_to_be_kept_after_all_wake_up() -> None:
    fake = await ended(head=blueprints.blueprint(**SERVICES))
    fake.cluster.edit(USE, {"spec": {"afterMission": "Keep"}})
    await uses.settle(fake)
    assert "kais.io/scaled-down" not in annotations_of(fake, FORMATION)


async def test_cells_rest_although_the_parameters_were_broken_meanwhile() -> None:
    fake = await uses.world(head=blueprints.blueprint(**SERVICES))
    await uses.settle(fake)
    fake.cluster.edit(USE, {"spec": {"parameters": {"topic": 7}}})
    uses.end(fake)
    await uses.settle(fake)
    assert condition(fake, "ParametersValid")[0] == "False"
    assert annotations_of(fake, FORMATION)["kais.io/scaled-down"] == "true"


async def test_a_use_without_a_mission_never_finishes_so_no_ttl_ends_it() -> None:
    body = blueprints.instance(ttlSecondsAfterFinished=10)
    fake = await uses.world(body, head=blueprints.blueprint(mission=None))
    await uses.settle(fake)
    fake.clock.advance(3600)
    await uses.settle(fake)
    assert USE in fake.cluster.refs()


async def test_a_rerun_that_is_asked_for_comes_before_the_ttl() -> None:
    fake = await ended(blueprints.instance(ttlSecondsAfterFinished=10))
    annotate(fake, rerun="2")
    fake.clock.advance(3600)
    await uses.settle(fake)
    assert status(fake)["phase"] == "Running"


async def test_a_nonce_that_somebody_forged_too_long_breaks_no_pass() -> None:
    fake = await uses.world()
    annotate(fake, rerun_taken="9" * 5000)
    await uses.settle(fake)
    assert len(status(fake)["acknowledged"]["rerun"]) <= instance_run.NONCE_LIMIT
