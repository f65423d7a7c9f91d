"""How a use ends: by its mission, by itself, or without one; and what is known of it then."""

from datetime import timedelta
from typing import Any

import pytest

from kais import names
from kais.resources.blueprint import BlueprintKnowledge
from kais.resources.blueprint_instance import BlueprintInstance
from kais_operator.controllers.blueprint_instance import observe as blueprint_instance
from kais_operator.controllers.blueprint_instance.decide import child_manifests
from kais_operator.planning.plan import Body
from knowledge_client import errors, models
from tests.fakes import blueprints
from tests.fakes.instance_builder import (
    FORMATION,
    MISSION,
    REF,
    condition,
    end,
    metadata,
    report_cells_ready,
    settle,
    status,
    told_of,
    world,
)


async def test_the_cells_and_the_mission_are_followed_to_success() -> None:
    fake = await world()
    await settle(fake)
    assert condition(fake, "CellsReady")[:2] == ("Unknown", "Reconciling")
    report_cells_ready(fake)
    fake.cluster.set_status(MISSION, {"message": "attempt 1 of 3 runs"})
    await settle(fake)
    assert condition(fake, "CellsReady") == ("True", "CellsReady", "Formation/demo/use: 1 of 1")
    assert condition(fake, "MissionFinished") == (
        "False",
        "Running",
        "Mission/demo/use: attempt 1 of 3 runs",
    )
    assert condition(fake, "Ready")[:2] == ("False", "Running")
    end(fake, "Succeeded")
    await settle(fake)
    assert metadata(fake)["annotations"]["kais.io/outcome"] == "Succeeded"
    assert condition(fake, "MissionFinished") == (
        "True",
        "Finished",
        "Mission/demo/use ended Succeeded: all is well",
    )
    assert condition(fake, "Ready") == ("True", "Ready", "the mission succeeded")
    assert (status(fake)["phase"], status(fake)["outcome"]) == ("Succeeded", "Succeeded")
    messages = told_of(fake, "BlueprintInstance")
    assert [reason for reason, _ in messages] == ["RunBegun", "RunEnded"]
    assert messages[1][1].endswith("ended Succeeded: all is well")


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        ("Failed", "TaskFailed"),
        ("TimedOut", "TimedOut"),
        ("BudgetExceeded", "BudgetExceeded"),
        ("Cancelled", "Cancelled"),
        ("InfrastructureFailed", "InfrastructureFailed"),
    ],
)
async def test_any_other_end_is_not_ready_and_says_why(outcome: str, reason: str) -> None:
    fake = await world()
    await settle(fake)
    report_cells_ready(fake)
    end(fake, outcome, "the cell said no")
    await settle(fake)
    assert condition(fake, "Ready") == (
        "False",
        reason,
        f"Mission/demo/use ended {outcome}: the cell said no",
    )
    assert (status(fake)["phase"], status(fake)["outcome"]) == ("Failed", outcome)


async def test_a_use_that_ended_makes_its_mission_anew_only_to_report() -> None:
    fake = await world()
    await settle(fake)
    end(fake, "Failed")
    await settle(fake)
    fake.cluster.vanish(MISSION)
    fake.cluster.set_status(REF, {})
    await settle(fake)
    annotations = metadata(fake, MISSION)["annotations"]
    assert annotations["kais.io/outcome"] == "Failed"
    assert annotations["kais.io/run-id"] == metadata(fake)["annotations"]["kais.io/run-id"]


async def test_a_mission_deleted_before_its_outcome_was_noted_is_looked_up_in_the_ledger() -> None:
    fake = await world()
    await settle(fake)
    run_id = metadata(fake)["annotations"]["kais.io/run-id"]
    fake.cluster.vanish(MISSION)
    run = models.RunIn(namespace="demo", scope="realm:demo", outcome="Cancelled")
    await fake.knowledge.put_run(run_id, run)
    await settle(fake)
    assert metadata(fake)["annotations"]["kais.io/outcome"] == "Cancelled"
    assert metadata(fake, MISSION)["annotations"]["kais.io/outcome"] == "Cancelled"


async def test_a_use_without_a_mission_is_a_use_without_outcome() -> None:
    fake = await world(head=blueprints.blueprint(mission=None))
    await settle(fake)
    report_cells_ready(fake)
    await settle(fake)
    assert fake.cluster.refs("Mission") == []
    (run,) = fake.knowledge.runs.values()
    assert (run.kind, run.blueprint, run.revision, run.instance) == ("session", "team", 1, "use")
    assert (run.outcome, run.scope) == (None, "realm:demo/formation:team")
    assert run.parameters == {"topic": "pods", "count": 1}
    assert condition(fake, "MissionFinished")[:2] == ("True", "NoMission")
    assert condition(fake, "Ready") == (
        "True",
        "Ready",
        "the formation is ready; it has no mission",
    )
    assert status(fake)["phase"] == "Running"


async def test_a_run_without_a_mission_that_the_store_refuses_is_told_once_an_hour() -> None:
    fake = await world(head=blueprints.blueprint(mission=None))
    problem = models.Problem(title="too large", status=413, detail="d", code="too-large")
    fake.knowledge.refusals["put_run"] = errors.TooLarge("413: too large", problem=problem)
    for _ in range(5):
        await fake.step(blueprint_instance.CONTROLLER, REF)
    assert fake.knowledge.calls.count("put_run") == 1
    fake.clock.advance(3600)
    fake.knowledge.refusals.clear()
    await settle(fake)
    assert [run.kind for run in fake.knowledge.runs.values()] == ["session"]


async def test_a_use_without_a_mission_is_counted_at_once() -> None:
    fake = await world(head=blueprints.blueprint(mission=None))
    fake.sync_state.blueprint_stats("demo", "team")
    await fake.refresh_stats()
    await settle(fake)
    await fake.refresh_stats()
    counted = fake.sync_state.blueprint_stats("demo", "team")
    assert counted is not None
    assert (counted.uses, counted.running) == (1, 1)


async def test_a_finished_use_deletes_itself_when_its_time_has_come() -> None:
    fake = await world(blueprints.instance(ttlSecondsAfterFinished=60))
    await settle(fake)
    end(fake, "Succeeded")
    plan = await fake.settle(blueprint_instance.CONTROLLER, REF)
    assert plan is not None
    assert plan.requeue_after is not None
    assert plan.requeue_after.total_seconds() == 60
    fake.clock.advance(61)
    await fake.step(blueprint_instance.CONTROLLER, REF)
    assert fake.cluster.refs("BlueprintInstance") == []
    fake.cluster.collect_garbage()
    assert fake.cluster.refs("Formation") == []


@pytest.mark.parametrize("ttl_s", [2**31 - 1, 2**31, 10**12, 2**63 - 1])
async def test_a_use_with_a_time_to_live_beyond_any_calendar_finishes_and_stays(ttl_s) -> None:
    fake = await world(blueprints.instance(ttlSecondsAfterFinished=ttl_s))
    await settle(fake)
    end(fake, "Succeeded")
    plan = await fake.settle(blueprint_instance.CONTROLLER, REF)
    assert plan is not None
    assert plan.requeue_after == timedelta(seconds=2**31 - 1)
    assert status(fake)["phase"] == "Succeeded"


@pytest.mark.parametrize(
    ("policy", "spec", "arm"),
    [
        pytest.param({}, {}, "on", id="knowledge is given by default"),
        pytest.param({"policy": "Never"}, {}, "off", id="Never gives none"),
        pytest.param(
            {"policy": "Never"},
            {"knowledge": {"inject": True}},
            "off",
            id="Never holds against the use",
        ),
        pytest.param({}, {"knowledge": {"inject": False}}, "off", id="a use may do without"),
        pytest.param(
            {"policy": "Holdout", "holdoutPercent": 99}, {}, "holdout", id="the lot withholds"
        ),
    ],
)
async def test_the_arm_of_a_run(policy: Body, spec: Body, arm: str) -> None:
    head = blueprints.blueprint(knowledge=policy)
    fake = await world({**blueprints.instance(**spec)}, head=head)
    own_metadata = metadata(fake)
    if arm == "holdout":  # the run-id decides: choose one that draws the lot
        while _lot(names.run_id(own_metadata["uid"])) >= 99:
            fake.cluster.vanish(REF)
            own_metadata = fake.cluster.put(blueprints.instance())["metadata"]
    await settle(fake)
    mission = fake.cluster.read(MISSION)
    assert mission["metadata"]["annotations"]["kais.io/arm"] == arm
    inject = mission["spec"].get("knowledge", {}).get("inject")
    assert inject is (None if arm == "on" else False)


def _lot(run_id: str) -> int:
    return int(names.short_hash(f"holdout/{run_id}"), 16) % 100


async def test_the_holdout_draws_about_its_share_of_runs() -> None:
    fake = await world()
    use = BlueprintInstance.from_dict(fake.cluster.read(REF))
    policy = BlueprintKnowledge.from_dict({"policy": "Holdout", "holdoutPercent": 20})
    arms = [
        child_manifests.arm_of(use, policy, {}, run_id=names.run_id(str(n))) for n in range(1000)
    ]
    assert 150 < arms.count("holdout") < 250
    assert set(arms) == {"on", "holdout"}


async def test_a_restored_use_that_ended_is_not_run_again() -> None:
    fake = await world()
    await settle(fake)
    end(fake, "Succeeded")
    await settle(fake)
    saved: list[Body] = [fake.cluster.read(ref) for ref in (REF, FORMATION, MISSION)]
    for ref in (MISSION, FORMATION, REF):
        fake.cluster.vanish(ref)
    for body in saved:
        stored_record: dict[str, Any] = {k: v for k, v in body["metadata"].items() if k != "uid"}
        stored_record.pop("resourceVersion")
        fake.cluster.put({**body, "metadata": stored_record, "status": {}})
    await fake.step(blueprint_instance.CONTROLLER, REF)
    assert condition(fake, "Applied")[0] == "False"  # children of the use that was
    for ref in (MISSION, FORMATION):  # the garbage collector and the mission's controller
        fake.cluster.vanish(ref)
    await settle(fake)
    annotations = metadata(fake, MISSION)["annotations"]
    assert annotations["kais.io/outcome"] == "Succeeded"
    assert status(fake)["phase"] == "Succeeded"
