"""Missions: what is told of a run that ended, and what becomes of the object."""

import copy
import json

import pytest

from kais_operator.decide.plan import Body, ObjectRef
from kais_operator.observe import outbox
from knowledge_client import errors, models
from tests.fakes import teams
from tests.fakes.outboxes import kept_as
from tests.fakes.teams import MISSION, condition, job_ref, status
from tests.fakes.world import FakeWorld, fake_world

AWAY = "the knowledge service does not answer"


def annotations(fake: FakeWorld) -> dict[str, str]:
    return dict(fake.cluster.read(MISSION)["metadata"]["annotations"])


def finalizers(fake: FakeWorld) -> list[str]:
    return list(fake.cluster.read(MISSION)["metadata"].get("finalizers") or [])


async def ended(*bodies: Body, message: str = "two pods explained") -> FakeWorld:
    fake = await teams.started(*bodies)
    fake.clock.advance(20)
    teams.succeed(fake, message)
    await teams.settle(fake)
    return fake


async def passes(fake: FakeWorld, count: int = 4) -> None:
    """Make some passes; with a store that is away a key never settles."""
    for _ in range(count):
        await teams.pass_(fake)


async def test_the_outcome_is_stamped_before_the_ledger_is_told() -> None:
    fake = await teams.started()
    teams.succeed(fake)
    fake.knowledge.calls.clear()
    await teams.pass_(fake)
    assert annotations(fake)["kais.io/outcome"] == "Succeeded"
    assert fake.knowledge.calls == []
    await teams.settle(fake)
    told = [call for call in fake.knowledge.calls if not call.startswith("get_")]
    assert told == ["add_episodes", "put_run", "start_extraction"]


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
    told = status(fake)
    fake.memory.forget_told()
    fake.cluster.edit(MISSION, {"status": None})
    fake.knowledge.calls.clear()
    await teams.settle(fake)
    again = status(fake)
    for one in (*told["conditions"], *again["conditions"]):
        one.pop("lastTransitionTime")
    assert again == told
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
    fake.memory.forget_told()
    await teams.settle(fake)
    assert fake.cluster.refs("Job") == []
    assert len(fake.knowledge.runs) == 1
    told = status(fake)
    assert (told["outcome"], told["result"]) == ("Succeeded", "two pods explained")
    assert told["finishedAt"] == saved["status"]["finishedAt"]
    assert told["history"] == saved["status"]["history"]
    assert told["knowledge"] == saved["status"]["knowledge"]


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
    known = {"kais.io/run-id": run_id, "kais.io/outcome": "Succeeded"}
    held = ["kais.io/finalizer"]
    fake.cluster.put(teams.work(metadata={"annotations": known, "finalizers": held}))
    await teams.settle(fake)
    told = status(fake)
    assert (told["outcome"], told["attempt"]) == ("Succeeded", 1)
    assert told["finishedAt"] == "2026-03-01T12:00:20Z"
    assert told["knowledge"] == {"injected": 0, "extracted": 1}
    assert condition(fake, "Started") == (
        "True",
        "AlreadyRun",
        "the run ended Succeeded before this object was made; it is not run again",
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
        "Cancelled: the ledger has this run closed as Cancelled, which stands; seen here: Succeeded"
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


# Extraction


async def test_the_facts_of_a_run_have_its_realms_scopes_counted_at_once() -> None:
    fake = await teams.started()
    fake.knowledge.extraction_state = "pending"
    teams.succeed(fake)
    await teams.settle(fake)
    fake.memory.scope_stats("realm:demo/formation:team")
    await fake.refresh_stats()
    assert fake.memory.due().scopes == ()
    (run_id,) = fake.knowledge.runs
    fake.knowledge.extractions[run_id] = models.Extraction.model_validate(
        {**fake.knowledge.extractions[run_id].model_dump(), "state": "done"}
    )
    await teams.settle(fake)
    assert fake.memory.due().scopes == ("realm:demo/formation:team",)


async def test_extraction_is_polled_until_it_is_done() -> None:
    fake = await teams.started()
    fake.knowledge.extraction_state = "pending"
    teams.succeed(fake)
    plan = await teams.settle(fake)
    assert condition(fake, "KnowledgeExtracted") == (
        "False",
        "ExtractionPending",
        "the knowledge service is drawing facts from the run",
    )
    assert condition(fake, "Recorded")[0] == "True"
    assert plan.requeue_after.total_seconds() == 1
    fake.clock.advance(600)
    plan = await teams.settle(fake)
    assert plan.requeue_after.total_seconds() == 30
    (run_id,) = fake.knowledge.runs
    fake.knowledge.extractions[run_id] = models.Extraction(
        run_id=run_id, state="done", facts=("a", "b", "c")
    )
    plan = await teams.settle(fake)
    assert condition(fake, "KnowledgeExtracted") == ("True", "Extracted", "3 facts extracted")
    assert status(fake)["display"]["facts"] == "0 in, 3 out"
    assert plan.requeue_after is None


EXTRACTIONS = {
    "few facts with their reason": (
        {"state": "done", "facts": ("a",), "reason": "one error recurred"},
        ("True", "Extracted", "1 fact extracted: one error recurred"),
    ),
    "none with the reason": (
        {"state": "done", "reason": "nothing went wrong"},
        ("True", "NothingToExtract", "0 facts extracted: nothing went wrong"),
    ),
    "a failure with its reason": (
        {"state": "failed", "reason": "the model refused"},
        ("False", "ExtractionFailed", "no facts could be extracted: the model refused"),
    ),
}


@pytest.mark.parametrize(("found", "told"), EXTRACTIONS.values(), ids=EXTRACTIONS)
async def test_extraction_tells(found: Body, told: tuple[str, str, str]) -> None:
    fake = await ended()
    (run_id,) = fake.knowledge.runs
    fake.knowledge.extractions[run_id] = models.Extraction.model_validate(
        {"run_id": run_id, **found}
    )
    await teams.settle(fake)
    assert condition(fake, "KnowledgeExtracted") == told
    assert status(fake)["outcome"] == "Succeeded"


NO_EXTRACTION = {
    "the mission asks for none": (teams.work(knowledge={"extract": False}),),
    "its scope asks for none": (teams.work(), teams.scope(extraction={"enabled": False})),
}


@pytest.mark.parametrize("bodies", NO_EXTRACTION.values(), ids=NO_EXTRACTION)
async def test_nothing_is_extracted_when(bodies: tuple[Body, ...]) -> None:
    fake = await ended(*bodies)
    assert condition(fake, "KnowledgeExtracted") == (
        "False",
        "ExtractionDisabled",
        "the mission or its scope asked for no extraction",
    )
    assert condition(fake, "Recorded")[0] == "True"
    assert fake.knowledge.extractions == {}


async def test_a_mission_that_asks_for_extraction_gets_it_whatever_its_scope_says() -> None:
    work = teams.work(knowledge={"extract": True})
    fake = await ended(work, teams.scope(extraction={"enabled": False}))
    assert condition(fake, "KnowledgeExtracted")[0] == "True"


async def test_a_failed_run_leaves_knowledge_too() -> None:
    fake = await teams.started(teams.work(completion={"maxAttempts": 1}))
    teams.fail(fake)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Failed"
    assert condition(fake, "KnowledgeExtracted")[0] == "True"


# A store that is away


async def test_a_run_that_ended_is_told_when_the_store_is_back() -> None:
    fake = await teams.started()
    fake.knowledge.away = True
    teams.succeed(fake)
    await passes(fake)
    assert status(fake)["outcome"] == "Succeeded"
    state, reason, message = condition(fake, "Recorded")
    assert (state, reason) == ("False", "StoreUnavailable")
    assert message == f"get_run: {AWAY}; run {status(fake)['runId']} is recorded when it answers"
    assert condition(fake, "KnowledgeExtracted") == (
        "False",
        "StoreUnavailable",
        f"get_run: {AWAY}; facts are extracted when it answers",
    )
    assert finalizers(fake) == ["kais.io/finalizer"]
    fake.knowledge.away = False
    await teams.settle(fake)
    assert condition(fake, "Recorded")[0] == "True"
    assert condition(fake, "KnowledgeExtracted")[0] == "True"
    assert finalizers(fake) == []


async def test_what_was_told_stays_told_while_the_store_is_away() -> None:
    fake = await ended()
    told = status(fake)
    fake.knowledge.away = True
    fake.memory.forget_told()
    await passes(fake)
    assert status(fake) == told


async def test_a_store_that_went_away_between_closing_and_extraction_is_asked_again() -> None:
    fake = await teams.started()
    reset = errors.KnowledgeUnavailable("start_extraction: connection reset")
    fake.knowledge.refusals["start_extraction"] = reset
    teams.succeed(fake)
    await passes(fake)
    assert condition(fake, "Recorded")[1] == "RecordingPending"
    assert finalizers(fake) == ["kais.io/finalizer"]
    fake.knowledge.refusals.clear()
    await teams.settle(fake)
    assert condition(fake, "KnowledgeExtracted")[0] == "True"
    (episodes,) = fake.knowledge.episodes.values()
    assert len(episodes) == 1


# Deletion


async def test_a_mission_deleted_while_it_runs_is_cancelled_and_recorded() -> None:
    fake = await teams.started()
    teams.pod(fake, status=teams.running())
    await teams.settle(fake)
    fake.cluster.remove(MISSION)
    await teams.settle(fake)
    assert MISSION not in fake.cluster.refs()
    assert fake.cluster.refs("Job") == []
    (run,) = fake.knowledge.runs.values()
    assert run.outcome == "Cancelled"
    (episodes,) = fake.knowledge.episodes.values()
    assert episodes[-1].content == (
        "the run ended Cancelled: the mission was deleted while attempt 1 ran"
    )


async def test_a_mission_deleted_after_its_job_ended_keeps_the_jobs_outcome() -> None:
    fake = await teams.started()
    teams.succeed(fake)
    fake.cluster.remove(MISSION)
    await teams.settle(fake)
    (run,) = fake.knowledge.runs.values()
    assert run.outcome == "Succeeded"


async def test_a_mission_that_never_began_is_let_go() -> None:
    fake = await teams.ready_world(teams.work(metadata={"finalizers": ["kais.io/finalizer"]}))
    fake.cluster.remove(MISSION)
    await teams.settle(fake)
    assert MISSION not in fake.cluster.refs()
    assert fake.knowledge.runs == {}


async def test_a_deletion_does_not_wait_for_the_store_for_ever() -> None:
    fake = await teams.started()
    fake.knowledge.away = True
    fake.cluster.remove(MISSION)
    await passes(fake)
    assert MISSION in fake.cluster.refs()
    fake.clock.advance(30)
    await passes(fake, 2)
    assert MISSION not in fake.cluster.refs()
    (run_id,) = fake.knowledge.runs
    key = ObjectRef("Outbox", "kais-system", kept_as(run_id))
    kept = ObjectRef("ConfigMap", "kais-system", kept_as(run_id))
    calls = json.loads(fake.cluster.read(kept)["data"]["calls.json"])
    assert [call["call"] for call in calls] == ["record_episodes", "put_run", "request_extraction"]
    await fake.step(outbox.RECONCILER, key)
    assert kept in fake.cluster.refs()
    fake.knowledge.away = False
    await fake.step(outbox.RECONCILER, key)
    assert kept not in fake.cluster.refs()
    assert fake.knowledge.runs[run_id].outcome == "Cancelled"
    assert run_id in fake.knowledge.extractions


async def test_a_store_that_answers_is_told_even_when_the_deletion_is_old() -> None:
    fake = await teams.started()
    fake.cluster.remove(MISSION)
    fake.clock.advance(120)
    await teams.settle(fake)
    assert fake.cluster.refs("ConfigMap") == [
        ref for ref in fake.cluster.refs("ConfigMap") if ref.namespace == "demo"
    ]
    (run,) = fake.knowledge.runs.values()
    assert run.outcome == "Cancelled"


async def test_a_namespace_that_goes_gets_nothing_new_and_its_runs_are_recorded() -> None:
    fake = await teams.started()
    fake.cluster.terminating.add("demo")
    for ref in (teams.FORMATION, teams.CELL, job_ref(), MISSION):
        fake.cluster.remove(ref)
    fake.cluster.writes.clear()
    await teams.settle(fake)
    assert [verb for verb, _ in fake.cluster.writes if verb == "create"] == []
    assert MISSION not in fake.cluster.refs()
    (run,) = fake.knowledge.runs.values()
    assert (run.outcome, run.scope) == ("Cancelled", "realm:demo/formation:team")


async def test_an_outbox_in_another_namespace_is_nobodys_order() -> None:
    forged = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "kais-outbox-x",
            "namespace": "demo",
            "labels": {"app.kubernetes.io/managed-by": "kais", "kais.io/role": "outbox"},
        },
        "data": {"calls.json": '[{"call": "delete_scope", "path": "realm:other"}]'},
    }
    fake = fake_world(forged)
    key = ObjectRef("Outbox", "demo", "kais-outbox-x")
    assert await fake.step(outbox.RECONCILER, key) is None
    assert fake.knowledge.deleted_scopes == []
