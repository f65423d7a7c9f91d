"""Missions with a review: who is asked, what is heard, and what a rejection is worth."""

import json
from dataclasses import replace
from typing import Any

import pytest

from kais_operator.planning.plan import Body
from tests.fakes import teams
from tests.fakes.teams import MISSION, condition, job_ref, status
from tests.fakes.world import FakeWorld, restarted

NAMED = {"name": "named", "type": "response", "contains": "network"}
REVIEW = {"enabled": True, "reviewer": "ana", "criteria": "Is the cause named?"}


def reviewed(**completion: Any) -> Body:
    return teams.work(completion={"review": REVIEW, **completion})


def say(fake: FakeWorld, output: Any) -> None:
    text = output if isinstance(output, str) else json.dumps(output)
    written = {"kais.io/review": text, "kais.io/reviewed-by": "ana@harbour.example"}
    fake.cluster.edit(MISSION, {"metadata": {"annotations": written}})


async def waiting(**completion: Any) -> FakeWorld:
    fake = await teams.started(reviewed(**completion))
    teams.succeed(fake, "it is the network")
    await teams.settle(fake)
    return fake


def feedback(fake: FakeWorld, attempt: int) -> str:
    (task,) = fake.cluster.read(job_ref(attempt))["spec"]["template"]["spec"]["containers"]
    return next(e["value"] for e in task["env"] if e["name"] == "KAIS_FEEDBACK")


def run_id(fake: FakeWorld) -> str:
    return str(fake.cluster.read(MISSION)["metadata"]["annotations"]["kais.io/run-id"])


def asked_of(fake: FakeWorld) -> str:
    return (
        "attempt 1: the task succeeded; it waits for the review by ana; criteria: Is the cause "
        f'named? Answer with the annotation kais.io/review={{"run": "{run_id(fake)}", '
        '"attempt": 1, "verdict": "approve", "feedback": ""} (or reject)'
        " and kais.io/reviewed-by=<your user name>"
    )


async def test_the_reviewer_is_asked_with_the_criteria_once() -> None:
    fake = await waiting()
    assert condition(fake, "Succeeded") == ("Unknown", "ReviewRequested", asked_of(fake))
    assert (status(fake)["phase"], status(fake)["review"]) == ("Running", {"status": "Pending"})
    events = [event for event in fake.cluster.events if event["reason"] == "ReviewRequested"]
    assert [(event["type"], event["message"]) for event in events] == [("Normal", asked_of(fake))]
    await teams.settle(fake)
    assert len([e for e in fake.cluster.events if e["reason"] == "ReviewRequested"]) == 1


@pytest.mark.parametrize("checks", [[], [NAMED]], ids=["without checks", "with checks"])
async def test_review_goes_on_when_the_ended_job_is_deleted(checks: list[Body]) -> None:
    """A person may take days, and programs clean up Jobs that have ended."""
    fake = await waiting(checks=checks)
    for ref in [*fake.cluster.refs("Pod"), *fake.cluster.refs("Job")]:
        fake.cluster.remove(ref)
    fake = restarted(fake)
    await teams.settle(fake)
    assert condition(fake, "Succeeded")[:2] == ("Unknown", "ReviewRequested")
    assert fake.cluster.refs("Job") == []
    say(fake, {"run": run_id(fake), "attempt": 1, "verdict": "approve", "feedback": ""})
    await teams.settle(fake)
    assert (status(fake)["outcome"], status(fake)["attempt"]) == ("Succeeded", 1)
    assert status(fake)["result"] == "it is the network"


async def test_a_review_without_criteria_is_requested_without_them() -> None:
    fake = await waiting(review=REVIEW | {"criteria": ""})
    message = condition(fake, "Succeeded")[2]
    assert "it waits for the review by ana; answer with the annotation kais.io/review=" in message


async def test_an_approval_is_success_and_acknowledged() -> None:
    fake = await waiting()
    record = {"attempt": 1, "verdict": "approve", "feedback": "well done"}
    say(fake, record)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Succeeded"
    assert status(fake)["review"] == {
        "status": "Approved",
        "feedback": "well done",
        "by": "ana@harbour.example",
    }
    assert status(fake)["acknowledged"] == {"review": json.dumps(record)}
    assert (
        condition(fake, "Succeeded")[2]
        == "attempt 1: the task succeeded, and ana@harbour.example approved"
    )


async def test_a_rejection_gives_its_feedback_to_the_next_attempt() -> None:
    fake = await waiting()
    record = {"attempt": 1, "verdict": "reject", "feedback": "which $(NODE)?"}
    say(fake, record)
    await teams.settle(fake)
    assert feedback(fake, 2) == "which $$(NODE)?"
    assert (
        status(fake)["history"][0]["result"]
        == "rejected in review by ana@harbour.example: which $(NODE)?"
    )
    assert status(fake)["review"] == {
        "status": "Rejected",
        "feedback": "which $(NODE)?",
        "by": "ana@harbour.example",
    }
    assert status(fake)["acknowledged"] == {"review": json.dumps(record)}


async def test_the_last_rejection_is_failure() -> None:
    fake = await waiting(maxAttempts=1)
    say(fake, {"attempt": 1, "verdict": "Rejected", "feedback": "no"})
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Failed"
    assert condition(fake, "Succeeded") == (
        "False",
        "ReviewRejected",
        "Failed: attempt 1 of 1 failed: rejected in review by ana@harbour.example: no",
    )


async def test_a_verdict_that_decided_an_earlier_attempt_is_no_remark_on_the_next() -> None:
    fake = await waiting()
    say(fake, {"attempt": 1, "verdict": "reject", "feedback": "no"})
    await teams.settle(fake)
    teams.succeed(fake, "it is the disk", 2)
    await teams.settle(fake)
    status_, reason, text = condition(fake, "Succeeded")
    assert (status_, reason) == ("Unknown", "ReviewRequested")
    assert "is ignored" not in text
    assert status(fake)["review"] == {"status": "Pending"}


async def again(fake: FakeWorld, nonce: str = "n1") -> None:
    """Begin another run, and have its first attempt wait for its review."""
    fake.cluster.edit(MISSION, {"metadata": {"annotations": {"kais.io/rerun": nonce}}})
    await teams.passes(fake)
    fake.cluster.collect_garbage()
    await teams.settle(fake)
    teams.succeed(fake, "it is the disk")
    await teams.settle(fake)


@pytest.mark.parametrize("verdict", ["approve", "reject"])
async def test_the_verdict_on_the_run_before_does_not_judge_the_next_one(verdict: str) -> None:
    fake = await waiting(maxAttempts=1)
    say(fake, {"attempt": 1, "verdict": verdict, "feedback": "as it was"})
    await teams.settle(fake)
    await again(fake)
    assert condition(fake, "Succeeded") == ("Unknown", "ReviewRequested", asked_of(fake))
    assert status(fake)["review"] == {"status": "Pending"}
    assert "kais.io/review" not in fake.cluster.read(MISSION)["metadata"]["annotations"]


async def test_a_verdict_that_comes_when_the_next_run_has_begun_is_ignored_and_said() -> None:
    fake = await waiting(maxAttempts=1)
    first = run_id(fake)
    fake.cluster.edit(MISSION, {"metadata": {"annotations": {"kais.io/abort": "enough"}}})
    await teams.settle(fake)
    await again(fake)
    say(fake, {"run": first, "attempt": 1, "verdict": "approve"})
    await teams.settle(fake)
    message = condition(fake, "Succeeded")[2]
    assert message == f"{asked_of(fake)}; kais.io/review names run {first} and is ignored"
    assert "outcome" not in status(fake)


async def test_a_verdict_that_names_the_present_run_counts() -> None:
    fake = await waiting()
    say(fake, {"run": run_id(fake), "attempt": 1, "verdict": "approve"})
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Succeeded"


async def test_a_verdict_that_a_mission_is_created_with_judges_nothing() -> None:
    early = '{"attempt": 1, "verdict": "approve"}'
    body = reviewed()
    body["metadata"]["annotations"] = {"kais.io/review": early}
    fake = await teams.started(body)
    teams.succeed(fake, "done")
    await teams.settle(fake)
    assert condition(fake, "Succeeded")[1] == "ReviewRequested"


async def test_a_verdict_given_before_its_attempt_ended_counts_then() -> None:
    fake = await teams.started(reviewed())
    say(fake, {"attempt": 1, "verdict": "approve"})
    await teams.settle(fake)
    assert "outcome" not in status(fake)
    teams.succeed(fake, "done")
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Succeeded"


FORM = 'write {"attempt": 1, "verdict": "approve" or "reject", "feedback": "…"}'
MALFORMED = {
    "no JSON": ("approve", "is not JSON (Expecting value: line 1 column 1 (char 0))"),
    "a list": ("[1]", "is not an object"),
    "no attempt": ({"verdict": "approve"}, "names no attempt"),
    "an attempt that is text": ({"attempt": "1", "verdict": "approve"}, "names no attempt"),
    "another verdict": ({"attempt": 1, "verdict": "maybe"}, "has verdict 'maybe'"),
    "a feedback that is no text": (
        {"attempt": 1, "verdict": "approve", "feedback": 1},
        "has a feedback that is no text",
    ),
}


@pytest.mark.parametrize(("said", "message"), MALFORMED.values(), ids=MALFORMED)
async def test_a_verdict_that_cannot_be_read_decides_nothing_and_is_told(
    said: Any, message: str
) -> None:
    fake = await waiting()
    say(fake, said)
    await teams.settle(fake)
    assert condition(fake, "Succeeded")[2] == f"{asked_of(fake)}; kais.io/review {message}; {FORM}"
    assert "outcome" not in status(fake)
    assert "acknowledged" not in status(fake)


async def test_a_review_that_nobody_gives_times_out_by_itself() -> None:
    fake = await waiting()
    plan = await teams.settle(fake)
    fake.clock.advance(plan.requeue_after.total_seconds())
    await teams.settle(fake)
    assert status(fake)["outcome"] == "TimedOut"
    assert condition(fake, "Succeeded")[2] == (
        "the 10m for all attempts ran out in attempt 1 before it was reviewed"
    )


async def test_an_abort_ends_a_review() -> None:
    fake = await waiting()
    fake.cluster.edit(MISSION, {"metadata": {"annotations": {"kais.io/abort": "enough"}}})
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Cancelled"
    assert fake.cluster.refs("Job") == [job_ref()], "its Job ended long before"


async def test_work_that_fails_is_not_reviewed() -> None:
    fake = await teams.started(reviewed(maxAttempts=1))
    teams.fail(fake, "no such pod")
    await teams.settle(fake)
    assert (status(fake)["outcome"], status(fake).get("review")) == ("Failed", None)


async def test_a_review_that_is_not_enabled_is_not_asked_for() -> None:
    fake = await teams.started(reviewed(review={**REVIEW, "enabled": False}))
    teams.succeed(fake)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Succeeded"


async def test_a_review_longer_than_a_status_holds_counts_and_is_acknowledged_cut() -> None:
    fake = await waiting()
    say(fake, {"attempt": 1, "verdict": "approve", "feedback": "x" * 200_000})
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Succeeded"
    assert status(fake)["acknowledged"]["review"].startswith('{"attempt": 1, "verdict": "approve"')


async def test_a_new_run_removes_the_verdict_with_its_author() -> None:
    fake = await waiting(maxAttempts=1)
    say(fake, {"attempt": 1, "verdict": "approve"})
    await teams.settle(fake)
    await again(fake)
    annotations = fake.cluster.read(MISSION)["metadata"]["annotations"]
    assert not {"kais.io/review", "kais.io/reviewed-by"} & annotations.keys()


@pytest.mark.parametrize(
    ("has_policy", "author"),
    [
        (True, "a reviewer (not on record)"),
        (False, "a reviewer (not on record: this installation has no admission policy)"),
    ],
)
async def test_no_name_is_shown_that_the_api_server_has_not_confirmed(
    has_policy: bool, author: str
) -> None:
    fake = await teams.started(reviewed())
    placement = replace(fake.world.placement, has_spawn_policy=has_policy)
    fake.world = replace(fake.world, placement=placement)
    teams.succeed(fake, "it is the network")
    await teams.settle(fake)
    written = {"kais.io/review": '{"attempt": 1, "verdict": "approve"}'}
    written |= {} if has_policy else {"kais.io/reviewed-by": "the-boss"}
    fake.cluster.edit(MISSION, {"metadata": {"annotations": written}})
    await teams.settle(fake)
    assert (
        condition(fake, "Succeeded")[2] == f"attempt 1: the task succeeded, and {author} approved"
    )
    assert status(fake)["review"] == {"status": "Approved"}
