"""Missions: what is told of a run that ended, and what becomes of the object."""

import copy

from knowledge_client import models
from tests.fakes import teams
from tests.fakes.teams import MISSION, condition, ended, finalizers, job_ref, passes, status
from tests.fakes.world import FakeWorld, fake_world

MESSAGE = "the knowledge service does not answer"


def annotations(fake: FakeWorld) -> dict[str, str]:
    return dict(fake.cluster.read(MISSION)["metadata"]["annotations"])


async def test_the_outcome_is_stamped_before_the_ledger_is_told() -> None:
    fake = await teams.started()
    teams.succeed(fake)
    fake.knowledge.calls.clear()
    await teams.pass_(fake)
    assert annotations(fake)["kais.io/outcome"] == "Succeeded"
    assert fake.knowledge.calls == []
    await teams.settle(fake)
    calls = [call for call in fake.knowledge.calls if not call.startswith("get_")]
    assert calls == ["add_episodes", "put_run", "start_extraction"]


async def test_a_run_that_ended_is_in_the_ledger_as_it_was() -> None:
    fake = await ended()
    (run,) = fake.knowledge.runs.values()
    assert (run.outcome, run.attempts, run.counters) == ("Succeeded", 1, {"injected": 0})
    assert run.started_at is not None
    assert run.finished_at is not None
    assert (run.finished_at - run.started_at).total_seconds() == 20
    assert condition(fake, "Recorded") == (
        "True",
        "Recorded",
        f"the ledger has run {run.run_id} as Succeeded",
    )
    assert condition(fake, "KnowledgeExtracted") == ("True", "Extracted", "1 fact extracted")
    assert finalizers(fake) == []


async def test_each_attempt_leaves_an_episode() -> None:
    fake = await teams.started()
    teams.fail(fake, "looking\nno such pod")
    await teams.settle(fake)
    teams.succeed(fake, "found it", 2)
    await teams.settle(fake)
    (episodes,) = fake.knowledge.episodes.values()
    assert [(e.attempt, e.type, e.content, e.error_signature) for e in episodes] == [
        (
            1,
            "error",
            "attempt 1: the task ended with exit code 1: looking\nno such pod",
            "no such pod",
        ),
        (2, "message", "attempt 2: the task succeeded: found it", None),
    ]
    assert episodes[0].refs == (models.Ref(type="mission", id="demo/doctor"),)


async def test_result_in_json_names_no_error() -> None:
    fake = await teams.started()
    teams.fail(fake, '{"checked": 3, "failed": 1}')
    await teams.settle(fake)
    teams.succeed(fake, "found it", 2)
    await teams.settle(fake)
    (episodes,) = fake.knowledge.episodes.values()
    assert episodes[0].error_signature == "the task ended with exit code 1"


async def test_a_run_that_never_started_leaves_its_reason() -> None:
    fake = fake_world(teams.work(startDeadline="1s"))
    await teams.settle(fake)
    fake.clock.advance(1)
    await teams.settle(fake)
    (episodes,) = fake.knowledge.episodes.values()
    assert [(e.type, e.content) for e in episodes] == [
        (
            "decision",
            (
                "the run ended InfrastructureFailed: not started within 1s: "
                "Formation/demo/team does not exist; create it"
            ),
        )
    ]
    assert condition(fake, "Recorded")[0] == "True"


async def test_the_facts_of_a_run_that_never_started_are_shown_as_none_in_and_out() -> None:
    fake = fake_world(teams.work(startDeadline="1s"))
    await teams.settle(fake)
    assert "facts" not in status(fake).get("display", {})
    fake.clock.advance(1)
    await teams.settle(fake)
    assert status(fake)["display"]["facts"].startswith("0 in, ")


async def test_what_a_run_left_is_shown_when_it_is_known() -> None:
    fake = await teams.started()
    assert status(fake)["display"]["facts"] == "0 in"
    fake.knowledge.extraction_state = "pending"
    teams.succeed(fake)
    await teams.settle(fake)
    assert status(fake)["display"]["facts"] == "0 in"


async def test_a_run_that_is_not_to_leave_facts_is_shown_as_none_out() -> None:
    fake = await ended(teams.work(knowledge={"extract": False}))
    assert status(fake)["display"]["facts"] == "0 in, 0 out"


async def test_a_settled_mission_writes_and_tells_nothing() -> None:
    fake = await ended()
    writes = len(fake.cluster.writes)
    fake.knowledge.calls.clear()
    plan = await teams.pass_(fake)
    assert len(fake.cluster.writes) == writes
    assert plan.requeue_after is None
    assert {call.partition("_")[0] for call in fake.knowledge.calls} == {"get"}


async def test_a_restart_and_a_wiped_status_change_nothing() -> None:
    fake = await ended()
    reported_status = status(fake)
    fake.sync_state.clear()
    fake.cluster.edit(MISSION, {"status": None})
    fake.knowledge.calls.clear()
    await teams.settle(fake)
    restored_status = status(fake)
    for first in (*reported_status["conditions"], *restored_status["conditions"]):
        first.pop("lastTransitionTime")
    assert restored_status == reported_status
    assert fake.cluster.refs("Job") == [job_ref()]
    assert {call.partition("_")[0] for call in fake.knowledge.calls} == {"get"}


async def test_a_mission_that_was_saved_and_applied_again_runs_nothing() -> None:
    fake = await ended()
    saved = fake.cluster.read(MISSION)
    fake.cluster.remove(MISSION)
    fake.cluster.collect_garbage()
    assert fake.cluster.refs("Job") == []
    restored = copy.deepcopy(saved)
    for key in ("uid", "resourceVersion", "creationTimestamp"):
        restored["metadata"].pop(key)
    fake.cluster.put({**restored, "status": {}})
    fake.clock.advance(3600)
    fake.sync_state.clear()
    await teams.settle(fake)
    assert fake.cluster.refs("Job") == []
    assert len(fake.knowledge.runs) == 1
    reported_status = status(fake)
    assert (reported_status["outcome"], reported_status["result"]) == (
        "Succeeded",
        "two pods explained",
    )
    assert reported_status["finishedAt"] == saved["status"]["finishedAt"]
    assert reported_status["history"] == saved["status"]["history"]
    assert reported_status["knowledge"] == saved["status"]["knowledge"]


async def test_a_run_that_goes_on_is_held_though_its_object_came_back_without_the_finalizer() -> (
    None
):
    run = {"kais.io/run-id": "0b6f5a0e-8a55-4b8e-9d35-1c1f0a4c2f11"}
    fake = await teams.started(teams.work(metadata={"annotations": run}))
    assert finalizers(fake) == ["kais.io/finalizer"]
    fake.cluster.remove(MISSION)
    await teams.settle(fake)
    (recorded,) = fake.knowledge.runs.values()
    assert (recorded.run_id, recorded.outcome) == (run["kais.io/run-id"], "Cancelled")


async def test_a_mission_made_anew_with_its_outcome_reports_from_the_ledger() -> None:
    fake = await ended()
    run_id = status(fake)["runId"]
    fake.cluster.vanish(MISSION)
    fake.cluster.collect_garbage()
    known_fields = {"kais.io/run-id": run_id, "kais.io/outcome": "Succeeded"}
    held = ["kais.io/finalizer"]
    fake.cluster.put(teams.work(metadata={"annotations": known_fields, "finalizers": held}))
    await teams.settle(fake)
    reported_status = status(fake)
    assert (reported_status["outcome"], reported_status["attempt"]) == ("Succeeded", 1)
    assert reported_status["finishedAt"] == "2026-03-01T12:00:20Z"
    assert reported_status["knowledge"] == {"injected": 0, "extracted": 1}
    assert condition(fake, "Started") == (
        "True",
        "AlreadyRun",
        "the run ended Succeeded before this Mission was created; it is not repeated",
    )
    assert fake.cluster.refs("Job") == []
    assert finalizers(fake) == []


async def test_the_ledgers_outcome_stands_against_ours() -> None:
    fake = await teams.started()
    run_id = status(fake)["runId"]
    run = models.RunIn(namespace="demo", scope="realm:demo/formation:team", outcome="Cancelled")
    await fake.knowledge.put_run(run_id, run)
    teams.succeed(fake)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Cancelled"
    assert annotations(fake)["kais.io/outcome"] == "Cancelled"
    assert condition(fake, "Succeeded")[2] == (
        "the knowledge service recorded the outcome Cancelled, which is kept; "
        "this operator observed Succeeded"
    )
    assert condition(fake, "Recorded")[0] == "True"


async def test_a_mission_saved_while_it_ran_is_not_run_again_when_the_ledger_has_its_end() -> None:
    fake = await teams.ready_world()
    run = models.RunIn(namespace="demo", scope="realm:demo/formation:team", outcome="Failed")
    await fake.knowledge.put_run("run-1", run)
    fake.cluster.edit(MISSION, {"metadata": {"annotations": {"kais.io/run-id": "run-1"}}})
    await teams.settle(fake)
    assert fake.cluster.refs("Job") == []
    assert status(fake)["outcome"] == "Failed"


async def test_a_run_that_ended_is_told_when_the_store_is_back() -> None:
    fake = await teams.started()
    fake.knowledge.away = True
    teams.succeed(fake)
    await passes(fake)
    assert status(fake)["outcome"] == "Succeeded"
    state, reason, message = condition(fake, "Recorded")
    assert (state, reason) == ("False", "StoreUnavailable")
    assert message == f"get_run: {MESSAGE}; run {status(fake)['runId']} is recorded when it answers"
    assert condition(fake, "KnowledgeExtracted") == (
        "False",
        "StoreUnavailable",
        f"get_run: {MESSAGE}; facts are extracted when it answers",
    )
    assert finalizers(fake) == ["kais.io/finalizer"]
    fake.knowledge.away = False
    await teams.settle(fake)
    assert condition(fake, "Recorded")[0] == "True"
    assert condition(fake, "KnowledgeExtracted")[0] == "True"
    assert finalizers(fake) == []


async def test_what_was_told_stays_told_while_the_store_is_away() -> None:
    fake = await ended()
    reported_status = status(fake)
    fake.knowledge.away = True
    fake.sync_state.clear()
    await passes(fake)
    assert status(fake) == reported_status
