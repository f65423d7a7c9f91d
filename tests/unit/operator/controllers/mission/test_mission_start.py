"""Missions: their run, what they wait for, and their first attempt."""

import pytest

from kais import names
from kais_operator.controllers.cell.observe import cell
from kais_operator.planning.plan import Body, ObjectRef, PatchMetadata, PutRun
from tests.fakes import teams
from tests.fakes.teams import CELL, FORMATION, MISSION, condition, job_ref, status
from tests.fakes.world import FakeWorld, fake_world


def metadata(fake: FakeWorld) -> Body:
    return dict(fake.cluster.read(MISSION)["metadata"])


async def test_the_run_is_stamped_before_anything_else_happens() -> None:
    fake = await teams.ready_world()
    plan = await teams.pass_(fake)
    stamp = plan.actions[0]
    assert isinstance(stamp, PatchMetadata)
    assert isinstance(plan.actions[1], PutRun)
    run_id = names.run_id(metadata(fake)["uid"])
    assert metadata(fake)["annotations"]["kais.io/run-id"] == run_id
    assert metadata(fake)["finalizers"] == ["kais.io/finalizer"]
    assert fake.knowledge.runs[run_id].outcome is None
    assert fake.cluster.refs("Job") == [job_ref()]


async def test_the_run_is_opened_in_its_formations_scope() -> None:
    labels = {"kais.io/blueprint": "reviews", "kais.io/revision": "4", "kais.io/instance": "use"}
    fake = await teams.started(teams.work(metadata={"labels": labels}))
    (run,) = fake.knowledge.runs.values()
    assert run.scope == "realm:demo/formation:team"
    assert (run.namespace, run.mission, run.arm) == ("demo", "doctor", "on")
    assert (run.blueprint, run.revision, run.instance) == ("reviews", 4, "use")
    assert run.objective == "explain the failing pods"


async def test_a_mission_with_its_pod_settles() -> None:
    fake = await teams.started()
    teams.pod(fake, status=teams.waiting("ContainerCreating", ""))
    initial_writes = list(fake.cluster.writes)
    plan = await teams.pass_(fake)
    assert plan.actions == ()
    assert fake.cluster.writes == initial_writes
    assert plan.requeue_after.total_seconds() == 300
    assert condition(fake, "Started") == ("False", "WaitingForPods", "attempt 1 is being started")


async def test_a_pod_that_runs_has_started_the_mission() -> None:
    fake = await teams.started()
    teams.pod(fake, status=teams.running())
    plan = await teams.settle(fake)
    assert condition(fake, "Started") == (
        "True",
        "Started",
        "attempt 1 was started at 2026-03-01T12:00:00Z",
    )
    assert condition(fake, "Succeeded") == ("Unknown", "Running", "attempt 1 of 3 is running")
    assert status(fake)["phase"] == "Running"
    assert plan.requeue_after.total_seconds() == 600


WAITS: dict[str, tuple[tuple[Body, ...], Body, str, str]] = {
    "a formation that is missing": (
        (),
        {},
        "FormationNotFound",
        "Formation/demo/team does not exist; create it",
    ),
    "a cell that is missing": (
        (),
        {"formationRef": None, "cellRef": "solo"},
        "CellNotFound",
        "Cell/demo/solo does not exist; create it",
    ),
    "an entrypoint that names no cell": (
        (teams.team(),),
        {"entrypoint": {"cell": "boss"}},
        "EntrypointNotFound",
        'entrypoint.cell "boss" names no cell of Formation/demo/team; it has lead-0',
    ),
    "an entrypoint beyond the replicas": (
        (teams.team(),),
        {"entrypoint": {"cell": "lead-1"}},
        "EntrypointNotFound",
        'entrypoint.cell "lead-1" names no cell of Formation/demo/team; it has lead-0',
    ),
    "a cell that is not made yet": (
        (teams.team(),),
        {},
        "WaitingForFormation",
        "Formation/demo/team has not made its cell lead-0 yet",
    ),
}


@pytest.mark.parametrize(("bodies", "spec", "reason", "message"), WAITS.values(), ids=WAITS)
async def test_a_mission_waits_for(
    bodies: tuple[Body, ...], spec: Body, reason: str, message: str
) -> None:
    fake = fake_world(*bodies, teams.work(**spec))
    await teams.settle(fake)
    assert condition(fake, "Started") == ("False", reason, message)
    assert condition(fake, "Succeeded") == ("Unknown", reason, message)
    assert fake.cluster.refs("Job") == []
    assert status(fake)["phase"] == "Pending"


async def test_a_mission_waits_for_all_cells_and_names_those_that_are_not_ready() -> None:
    cells = [
        {"name": "lead", "spec": teams.task()},
        {"name": "scout", "spec": teams.task(mode="Service")},
    ]
    fake = fake_world(teams.team(cells=cells), teams.work())
    await teams.settle_team(fake)
    await teams.settle(fake)
    state, reason, message = condition(fake, "Started")
    assert (state, reason) == ("False", "WaitingForCells")
    assert message.startswith("waiting for cells: team-scout-0: PodReady: the pod is being started")
    fake.cluster.edit(
        FORMATION, {"spec": {"cells": [cells[0], {"name": "scout", "spec": teams.task()}]}}
    )
    await teams.settle_team(fake)
    await teams.settle(fake)
    assert fake.cluster.refs("Job") == [job_ref()]


async def test_a_wait_that_takes_too_long_is_the_clusters_fault() -> None:
    fake = fake_world(teams.work(startDeadline="1m"))
    plan = await teams.settle(fake)
    assert plan.requeue_after.total_seconds() <= 60
    fake.clock.advance(60)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "InfrastructureFailed"
    message = "not started within 1m: Formation/demo/team does not exist; create it"
    assert condition(fake, "Succeeded") == (
        "False",
        "InfrastructureFailed",
        f"{message}",
    )
    assert condition(fake, "Started") == ("False", "InfrastructureFailed", message)
    (run,) = fake.knowledge.runs.values()
    assert run.outcome == "InfrastructureFailed"


async def test_the_deadline_counts_from_when_the_operator_took_the_mission_up() -> None:
    fake = fake_world(teams.work(startDeadline="1m"))
    fake.clock.advance(3600)  # nobody was there to start it
    await teams.settle(fake)
    assert condition(fake, "Started")[1] == "FormationNotFound"


@pytest.mark.parametrize("named", ["lead", "lead-0"])
async def test_the_entrypoint_may_name_template_or_replica(named: str) -> None:
    fake = await teams.started(teams.work(entrypoint={"cell": named, "message": "begin"}))
    manifest = fake.cluster.read(job_ref())
    assert manifest["metadata"]["labels"]["kais.io/cell"] == "team-lead-0"
    env = manifest["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "KAIS_MESSAGE", "value": "begin"} in env


async def test_a_mission_for_a_lone_cell_works_in_that_cells_scope() -> None:
    fake = fake_world(teams.lone_cell(), teams.work(formationRef=None, cellRef="solo"))
    await fake.settle(cell.CONTROLLER, ObjectRef("Cell", "demo", "solo"))
    await teams.settle(fake)
    (run,) = fake.knowledge.runs.values()
    assert run.scope == "realm:demo/cell:solo"
    assert fake.cluster.refs("Job") == [job_ref()]


async def test_a_suspended_mission_starts_nothing_until_that_is_taken_back() -> None:
    paused = {"annotations": {"kais.io/reconcile": "suspended"}}
    fake = await teams.ready_world(teams.work(metadata=paused))
    await teams.settle(fake)
    assert condition(fake, "Started") == (
        "False",
        "Suspended",
        "no attempt is started while kais.io/reconcile is suspended",
    )
    fake.cluster.edit(MISSION, {"metadata": {"annotations": {"kais.io/reconcile": None}}})
    await teams.settle(fake)
    assert fake.cluster.refs("Job") == [job_ref()]


async def test_somebody_elses_job_of_that_name_is_left_alone() -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "doctor-a1", "namespace": "demo"},
        "spec": {},
    }
    fake = await teams.ready_world(teams.work(), job)
    await teams.settle(fake)
    assert condition(fake, "Started") == (
        "False",
        "NameTaken",
        (
            "Job/demo/doctor-a1 exists already and does not belong to Mission/demo/doctor; "
            "delete or rename it, it is left untouched"
        ),
    )
    fake.cluster.remove(job_ref())
    await teams.settle(fake)
    assert condition(fake, "Started")[1] == "WaitingForPods"


async def test_a_name_that_stays_taken_is_not_waited_for_for_ever() -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "doctor-a1", "namespace": "demo"},
        "spec": {},
    }
    fake = await teams.ready_world(teams.work(startDeadline="1m"), job)
    await teams.settle(fake)
    fake.clock.advance(60)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "InfrastructureFailed"
    reasons = [e["reason"] for e in fake.cluster.events if e["about"] == MISSION]
    assert reasons == ["NameTaken", "InfrastructureFailed"]
    assert condition(fake, "Succeeded")[2].startswith(
        "not started within 1m: Job/demo/doctor-a1 exists already"
    )


async def test_a_suspended_mission_is_not_late_and_not_looked_at_without_an_event() -> None:
    paused = {"annotations": {"kais.io/reconcile": "suspended"}}
    fake = await teams.ready_world(teams.work(metadata=paused))
    await teams.settle(fake)
    fake.clock.advance(3600)
    plan = await teams.settle(fake)
    assert "outcome" not in status(fake)
    assert plan.requeue_after is None


def set_ready(fake: FakeWorld, *, is_ready: bool) -> None:
    """Report the entry cell as ready, or as waiting for its pod."""
    reported = fake.cluster.read(CELL)["status"]
    for each in reported["conditions"]:
        if each["type"] == "Ready":
            each.update(status=str(is_ready), reason="WaitingForPods", message="no pod yet")
    fake.cluster.set_status(CELL, reported)


def suspend(fake: FakeWorld, value: str | None = "suspended") -> None:
    fake.cluster.edit(MISSION, {"metadata": {"annotations": {"kais.io/reconcile": value}}})


@pytest.mark.parametrize("is_suspended_at_first", [True, False])
async def test_a_mission_has_a_whole_start_deadline_after_it_was_suspended(
    is_suspended_at_first: bool,
) -> None:
    suspended = {"annotations": {"kais.io/reconcile": "suspended"}} if is_suspended_at_first else {}
    fake = await teams.ready_world(teams.work(metadata=suspended))
    set_ready(fake, is_ready=False)
    await teams.settle(fake)
    suspend(fake)
    await teams.settle(fake)
    fake.clock.advance(600)
    suspend(fake, None)
    await teams.settle(fake)
    fake.clock.advance(299)
    await teams.settle(fake)
    assert "outcome" not in status(fake)
    fake.clock.advance(1)
    await teams.settle(fake)
    assert condition(fake, "Succeeded")[2] == (
        "not started within 5m: waiting for cells: team-lead-0: no pod yet"
    )


async def test_a_mission_that_is_suspended_twice_has_a_whole_start_deadline_after_each() -> None:
    fake = await teams.ready_world(teams.work())
    set_ready(fake, is_ready=False)
    await teams.settle(fake)
    for _ in range(2):
        suspend(fake)
        await teams.settle(fake)
        fake.clock.advance(600)
        suspend(fake, None)
        await teams.settle(fake)
        fake.clock.advance(200)
        await teams.settle(fake)
        assert "outcome" not in status(fake)


async def test_a_mission_that_was_never_held_back_has_no_record_of_it() -> None:
    fake = await teams.ready_world(teams.work())
    set_ready(fake, is_ready=False)
    await teams.settle(fake)
    set_ready(fake, is_ready=True)
    await teams.settle(fake)
    assert fake.cluster.refs("Job") == [job_ref()]
    assert "kais.io/held-until" not in fake.cluster.read(MISSION)["metadata"]["annotations"]


async def test_a_mission_that_is_suspended_at_first_starts_without_another_write_about_it() -> None:
    suspended = {"annotations": {"kais.io/reconcile": "suspended"}}
    fake = await teams.ready_world(teams.work(metadata=suspended))
    await teams.settle(fake)
    suspend(fake, None)
    await teams.settle(fake)
    assert fake.cluster.refs("Job") == [job_ref()]
    assert fake.cluster.read(MISSION)["metadata"]["annotations"]["kais.io/held-until"] == "open"


async def test_a_borrowed_account_that_lost_its_leave_starts_no_pod() -> None:
    account: Body = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {
            "name": "reader",
            "namespace": "demo",
            "annotations": {"kais.io/allow-cells": "true"},
        },
    }
    cells = [{"name": "lead", "spec": teams.task(serviceAccountName="reader")}]
    fake = fake_world(teams.team(cells=cells), teams.work(), account)
    await teams.settle_team(fake)
    fake.cluster.edit(
        ObjectRef("ServiceAccount", "demo", "reader"), {"metadata": {"annotations": None}}
    )
    await teams.settle(fake)
    assert condition(fake, "Started")[:2] == ("False", "AccountNotAllowed")
    assert fake.cluster.refs("Job") == []


async def test_a_registration_that_is_under_way_is_waited_for() -> None:
    fake = await teams.ready_world()
    reported_status = fake.cluster.read(CELL)["status"]
    for first_condition in reported_status["conditions"]:
        if first_condition["type"] == "Registered":
            first_condition |= {"status": "False", "reason": "NotRegistered", "message": "soon"}
    fake.cluster.set_status(CELL, reported_status)
    await teams.settle(fake)
    assert condition(fake, "Started")[2] == (
        "Cell/demo/team-lead-0 is being registered with the knowledge service"
    )
    fake.clock.advance(30)
    await teams.settle(fake)
    assert fake.cluster.refs("Job") == [job_ref()]


async def test_a_mission_that_breaks_rules_is_told_so_and_left_alone() -> None:
    fake = await teams.ready_world(teams.work(cellRef="solo"))
    await teams.settle(fake)
    assert condition(fake, "Succeeded") == (
        "False",
        "Invalid",
        "Mission is invalid: spec: exactly one of formationRef and cellRef is needed",
    )
    assert fake.cluster.refs("Job") == []


async def test_a_mission_that_breaks_rules_does_not_hold_its_namespace() -> None:
    held = {"finalizers": ["kais.io/finalizer"]}
    fake = await teams.ready_world(teams.work(cellRef="solo", metadata=held))
    fake.cluster.remove(MISSION)
    await teams.pass_(fake)
    assert fake.cluster.refs("Mission") == []


async def test_what_has_no_effect_is_said() -> None:
    fake = await teams.started(teams.work(budget={"maxCost": 1.0}))
    teams.pod(fake, status=teams.running())
    await teams.settle(fake)
    remark = "(without effect: budget: only cells with a mind report costs)"
    assert condition(fake, "Started")[2].endswith(remark)
    teams.succeed(fake, "done")
    await teams.settle(fake)
    assert condition(fake, "Recorded")[0] == "True"
    assert condition(fake, "Started")[2].endswith(remark)


async def test_the_run_of_a_use_carries_its_parameters() -> None:
    use = teams.thing(
        "BlueprintInstance",
        "use",
        spec={"blueprintRef": {"name": "a.long.blueprint"}, "parameters": {"topic": "pods"}},
        uid="uid-use",
    )
    owner = {
        "apiVersion": "kais.io/v1",
        "kind": "BlueprintInstance",
        "name": "use",
        "uid": "uid-use",
        "controller": True,
    }
    labels = {"kais.io/blueprint": names.label_value("a.long.blueprint"), "kais.io/revision": "2"}
    metadata = {"ownerReferences": [owner], "labels": labels}
    fake = await teams.started(use, teams.work(metadata=metadata))
    (run,) = fake.knowledge.runs.values()
    assert (run.blueprint, run.revision, run.instance) == ("a.long.blueprint", 2, "use")
    assert run.parameters == {"topic": "pods"}
