"""Missions whose reviewer is a cell: one message, and a typed verdict, or no approval."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from kais import a2a, approvals
from kais.agent_results import AgentFailure, AgentUsage, FailureClass
from kais.approvals import CallApproval
from kais_operator import errors
from kais_operator.controllers.cell.observe import cell
from kais_operator.controllers.mission.observe import mission
from kais_operator.manager.predicates import OwnWriteFilter
from kais_operator.manager.reconciler import Reconciler
from kais_operator.manager.reference_index import ReferenceIndex
from kais_operator.planning.agent_tasks import AgentReply, AgentTask, TaskState
from kais_operator.planning.plan import Body, ObjectRef, SendMessage
from tests.fakes import services, teams
from tests.fakes.teams import MISSION, condition, status
from tests.fakes.world import FakeWorld, fake_world, restarted

MIND = {"provider": "openai", "model": "scripted-1", "systemPrompt": "Work."}
LEAD = ObjectRef("Cell", "demo", "team-lead-0")
CRITIC = ObjectRef("Cell", "demo", "team-critic-0")
WORK = AgentUsage(input_tokens=100, output_tokens=10, turns=1, cost=Decimal("0.5"))
REVIEW = AgentUsage(input_tokens=40, output_tokens=5, turns=1, cost=Decimal("0.25"))


def team(**spec: Any) -> Body:
    cells = [{"name": name, "spec": {"mind": MIND}} for name in ("lead", "critic")]
    return teams.team(cells=cells, **spec)


def reviewed(reviewer: str = "critic", **changes: Any) -> Body:
    review = {"enabled": True, "reviewer": reviewer, "criteria": "Is the cause named?"}
    completion = {"review": review, **changes.pop("completion", {})}
    return teams.work(completion=completion, **changes)


async def serving(*bodies: Body) -> FakeWorld:
    """A world whose two Service cells have ready pods."""
    fake = fake_world(*bodies)
    await teams.settle_team(fake)
    for name in ("team-lead-0", "team-critic-0"):
        services.pod(fake, ObjectRef("Deployment", "demo", name), status=services.ready())
    await teams.settle_team(fake)
    return fake


async def passes(fake: FakeWorld, count: int = 4) -> None:
    for _ in range(count):
        await teams.pass_(fake)
        fake.clock.advance(1)


def run_id(fake: FakeWorld) -> str:
    return str(fake.cluster.read(MISSION)["metadata"]["annotations"]["kais.io/run-id"])


def message_id(fake: FakeWorld, attempt: int, purpose: Any) -> str:
    return a2a.message_id(run_id(fake), attempt, purpose)


def answer(fake: FakeWorld, text: str = "It was <b>DNS</b>.", attempt: int = 1) -> None:
    task = AgentTask(TaskState.COMPLETED, answer=text, usage=WORK)
    fake.agents.tasks[message_id(fake, attempt, "work")] = task


def verdict(fake: FakeWorld, text: str, attempt: int = 1, **changes: Any) -> None:
    task = AgentTask(TaskState.COMPLETED, answer=text, usage=REVIEW, **changes)
    fake.agents.tasks[message_id(fake, attempt, "review")] = task


def said(decision: str, reasons: str) -> str:
    return json.dumps({"verdict": decision, "reasons": reasons})


def reviews(fake: FakeWorld) -> list[SendMessage]:
    return [each for each in fake.agents.deliveries if "review" in each.metadata]


async def under_review(**changes: Any) -> FakeWorld:
    fake = await serving(team(), reviewed(**changes))
    await passes(fake)
    answer(fake)
    await passes(fake)
    return fake


@pytest.mark.parametrize("name", ["critic", "critic-0", "team-critic-0"])
async def test_template_or_cell_as_reviewer_gets_objective_criteria_and_framed_answer(
    name: str,
) -> None:
    fake = await under_review(reviewer=name)
    (message,) = reviews(fake)
    assert message.call.message_id == message_id(fake, 1, "review")
    assert message.call.address.cell == CRITIC
    assert message.metadata["review"] == {
        "objective": "explain the failing pods",
        "criteria": "Is the cause named?",
        "answer": "It was <b>DNS</b>.",
    }
    assert "<answer>\nIt was &lt;b&gt;DNS&lt;/b&gt;.\n</answer>" in message.text
    assert condition(fake, "Succeeded") == (
        "Unknown",
        "ReviewRunning",
        "attempt 1 of 3 is being reviewed: the agent answered; critic-0 reviews it",
    )
    assert status(fake)["review"] == {"status": "Pending"}


async def test_mission_whose_reviewer_hangs_ranks_like_others_until_it_answers() -> None:
    fake = await under_review()
    index = ReferenceIndex()
    index.update(MISSION, fake.cluster.read(MISSION), is_deleted=False)
    assert index.is_under_way(MISSION)
    answers, fake.agents.card = fake.agents.card, AgentReply(problem="no answer within 5 s")
    await passes(fake)
    index.update(MISSION, fake.cluster.read(MISSION), is_deleted=False)
    assert not index.is_under_way(MISSION)
    assert condition(fake, "Succeeded") == (
        "Unknown",
        "WaitingForPods",
        (
            "attempt 1 of 3 is being reviewed: the agent answered; critic-0 reviews it: "
            "the cell does not answer: no answer within 5 s"
        ),
    )
    fake.agents.card = answers
    await passes(fake)
    index.update(MISSION, fake.cluster.read(MISSION), is_deleted=False)
    assert index.is_under_way(MISSION)
    assert condition(fake, "Succeeded")[1] == "ReviewRunning"


async def test_approval_is_success_and_the_cost_of_the_review_counts_for_the_run() -> None:
    fake = await under_review()
    verdict(fake, said("approve", "it names the cause"))
    await teams.settle(fake)
    ended = status(fake)
    assert (ended["outcome"], ended["cost"], ended["turns"]) == ("Succeeded", 0.75, 2)
    verdict_shown = {"status": "Approved", "feedback": "it names the cause", "by": "critic-0"}
    assert ended["review"] == verdict_shown
    (run,) = fake.knowledge.runs.values()
    assert (run.outcome, run.cost) == ("Succeeded", 0.75)
    for each, cost in ((LEAD, 0.5), (CRITIC, 0.25)):
        await fake.settle(cell.CONTROLLER, each)
        assert status(fake, each)["totalCost"] == cost


@pytest.mark.parametrize("reviewer", ["critic", None])
async def test_end_of_a_task_is_in_the_status_after_one_reconcile(reviewer: str | None) -> None:
    work = reviewed(reviewer) if reviewer else teams.work()
    fake = await serving(team(), work)
    await passes(fake)
    answer(fake)
    if reviewer:
        await passes(fake)
        verdict(fake, said("approve", "it names the cause"))
    reconcile = Reconciler(
        fake.world, {"Mission": mission.CONTROLLER}, OwnWriteFilter(), requeue=lambda _, __: None
    )
    await reconcile(MISSION)
    assert status(fake)["outcome"] == "Succeeded"


async def test_rejection_opens_the_next_attempt_with_its_feedback() -> None:
    fake = await under_review()
    verdict(fake, said("reject", "which node?"))
    await passes(fake, 12)
    work = [each for each in fake.agents.deliveries if "feedback" in each.metadata]
    assert [each.metadata["feedback"] for each in work] == ["", "which node?"]
    assert status(fake)["history"][0]["result"] == "rejected in review by critic-0: which node?"


async def test_reasons_that_end_as_a_sentence_get_no_second_mark() -> None:
    fake = await under_review()
    verdict(fake, said("reject", "The fix is missing."))
    await passes(fake, 1)
    assert "critic-0: The fix is missing. The next attempt" in condition(fake, "Succeeded")[2]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("I approve.", "it is not JSON"),
        ('{"verdict": "approve"}', "it is not of the form"),
        ('{"verdict": "approve", "reasons": " "}', "it has no reasons"),
        ('{"verdict": true, "reasons": "fine"}', "its verdict is neither"),
        ('{"verdict": "approve", "reasons": "fine", "score": 9}', "it is not of the form"),
        ('{"verdict": "reject", "verdict": "approve", "reasons": "x"}', "it has a field twice"),
        ('[{"verdict": "approve", "reasons": "fine"}]', "it is not of the form"),
    ],
)
async def test_anything_else_is_no_approval(text: str, reason: str) -> None:
    fake = await under_review(completion={"maxAttempts": 1})
    verdict(fake, text)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Failed"
    state, why, message = condition(fake, "Succeeded")
    assert (state, why) == ("False", "ReviewFailed")
    expected = "critic-0 gave no verdict, which is no approval: its answer is no verdict: "
    assert expected + reason in message


async def test_reviewer_without_money_ends_the_run_as_budget_exceeded() -> None:
    fake = await under_review()
    failure = AgentFailure(FailureClass.BUDGET, "a call may cost $0.10")
    fake.agents.tasks[message_id(fake, 1, "review")] = AgentTask(
        TaskState.FAILED, failure=failure, usage=REVIEW
    )
    await teams.settle(fake)
    assert status(fake)["outcome"] == "BudgetExceeded"
    assert "critic-0 gave no verdict" in condition(fake, "Succeeded")[2]


async def test_review_may_cost_what_the_work_has_left() -> None:
    fake = await under_review(budget={"maxCost": 0.75})
    (message,) = reviews(fake)
    assert message.call.budget_left == "0.25"


@pytest.mark.parametrize("at", range(1, 16))
@pytest.mark.parametrize("is_lost", [False, True], ids=["arrives", "is lost"])
async def test_operator_that_is_killed_after_any_pass_asks_for_one_review(
    at: int, is_lost: bool
) -> None:
    fake = await serving(team(), reviewed())
    fake.agents.loses_messages = is_lost
    for number in range(1, 18):
        if number == at:
            fake = restarted(fake)
            fake.agents.loses_messages = False
        await teams.pass_(fake)
        fake.clock.advance(1)
        if number == 6 and fake.agents.tasks:
            answer(fake)
        if number == 13 and len(fake.agents.tasks) > 1:
            verdict(fake, said("approve", "fine"))
    await passes(fake, 6)
    answer(fake)
    await passes(fake, 6)
    verdict(fake, said("approve", "fine"))
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Succeeded"
    expected = {message_id(fake, 1, "work"), message_id(fake, 1, "review")}
    assert set(fake.agents.tasks) == expected
    assert status(fake)["cost"] == 0.75
    await fake.settle(cell.CONTROLLER, CRITIC)
    assert status(fake, CRITIC)["totalCost"] == 0.25


async def test_new_pod_of_the_reviewer_is_no_approval_and_opens_the_next_attempt() -> None:
    fake = await under_review()
    for ref in fake.cluster.refs("Pod"):
        if ref.name.startswith("team-critic-0"):
            fake.cluster.remove(ref)
    services.pod(fake, ObjectRef("Deployment", "demo", "team-critic-0"), status=services.ready())
    await passes(fake, 12)
    result = status(fake)["history"][0]["result"]
    assert result.startswith("critic-0 gave no verdict, which is no approval: ")
    assert result.endswith("the review was interrupted: its pod was replaced")
    assert message_id(fake, 2, "work") in fake.agents.tasks


async def test_verdict_that_was_read_before_the_pod_of_the_reviewer_was_replaced_counts() -> None:
    fake = await under_review()
    verdict(fake, said("approve", "fine"))
    fake.cluster.fail("patch", errors.Conflict("changed"), kind="Mission")
    with pytest.raises(errors.Conflict):
        await teams.pass_(fake)
    for ref in fake.cluster.refs("Pod"):
        if ref.name.startswith("team-critic-0"):
            fake.cluster.remove(ref)
    fake.agents.tasks.clear()
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Succeeded"


async def test_review_whose_connection_was_refused_is_requested_again_of_a_new_pod() -> None:
    fake = await serving(team(), reviewed())
    await passes(fake)
    answer(fake)
    fake.agents.refuses_connections = True
    await passes(fake)
    assert reviews(fake) == []
    for ref in fake.cluster.refs("Pod"):
        if ref.name.startswith("team-critic-0"):
            fake.cluster.remove(ref)
    services.pod(fake, ObjectRef("Deployment", "demo", "team-critic-0"), status=services.ready())
    fake.agents.refuses_connections = False
    await passes(fake)
    assert [each.call.message_id for each in reviews(fake)] == [message_id(fake, 1, "review")]
    verdict(fake, said("approve", "it names the cause"))
    await teams.settle(fake)
    assert (status(fake)["outcome"], status(fake)["attempt"]) == ("Succeeded", 1)


async def test_abort_cancels_the_review_and_counts_what_it_has_cost() -> None:
    fake = await under_review()
    fake.agents.usage_when_cancelled = REVIEW
    fake.cluster.edit(MISSION, {"metadata": {"annotations": {"kais.io/abort": "enough"}}})
    await passes(fake, 8)
    assert fake.agents.cancelled == [message_id(fake, 1, "review")]
    assert (status(fake)["outcome"], status(fake)["cost"]) == ("Cancelled", 0.75)


async def test_person_may_decide_in_the_place_of_the_cell() -> None:
    fake = await under_review()
    text = json.dumps({"attempt": 1, "verdict": "approve", "feedback": "seen it"})
    fake.cluster.edit(MISSION, {"metadata": {"annotations": {"kais.io/review": text}}})
    await passes(fake, 8)
    assert status(fake)["outcome"] == "Succeeded"
    message = condition(fake, "Succeeded")[2]
    assert message.startswith("attempt 1: the agent answered, and a reviewer")
    assert fake.agents.cancelled == [message_id(fake, 1, "review")]


@pytest.mark.parametrize("name", ["lead", "lead-0", "team-lead-0"])
async def test_entry_cell_cannot_review_itself(name: str) -> None:
    fake = await serving(team(), reviewed(reviewer=name))
    await passes(fake)
    message = (
        f'completion.review.reviewer "{name}" is Cell/demo/team-lead-0, which does the work; '
        "name another cell or a person"
    )
    assert condition(fake, "Started") == ("False", "ReviewerNotAllowed", message)
    assert fake.agents.deliveries == []
    assert "outcome" not in status(fake)


async def test_any_other_name_is_a_person() -> None:
    fake = await under_review(reviewer="ana")
    assert reviews(fake) == []
    assert condition(fake, "Succeeded")[1] == "ReviewRequested"


ARGUMENTS = '{"path": "shared/notes.md"}'
CALL = CallApproval(
    call="call-1",
    tool="write_file",
    arguments=ARGUMENTS,
    sha256=approvals.hash_of(ARGUMENTS),
    requested_at="2026-03-01T12:00:00+00:00",
    expires_at="2026-03-01T13:00:00+00:00",
)
DECIDED = {"outcome": "approved", "by": "ana", "decided_at": "2026-03-01T12:05:00+00:00"}


def approve(fake: FakeWorld) -> None:
    record = {"call": "call-1", "sha256": CALL.sha256, "decision": "approve"}
    annotations = {"kais.io/approval": json.dumps(record), "kais.io/approval-by": "ana"}
    fake.cluster.edit(MISSION, {"metadata": {"annotations": annotations}})


async def test_call_of_the_reviewer_waits_for_a_person_and_stays_on_record() -> None:
    fake = await under_review()
    waiting = AgentTask(TaskState.INPUT_REQUIRED, usage=REVIEW, approvals=(CALL,))
    fake.agents.tasks[message_id(fake, 1, "review")] = waiting
    await passes(fake, 2)
    [call] = status(fake)["approvals"]
    assert (call["cell"], call["tool"], call["arguments"]) == ("critic-0", "write_file", ARGUMENTS)
    assert condition(fake, "Succeeded") == (
        "Unknown",
        "ApprovalRequired",
        (
            "attempt 1 of 3: write_file of critic-0 waits for an approval;"
            " see `kais approvals list -n demo`"
        ),
    )
    fake = restarted(fake)
    approve(fake)
    await passes(fake, 1)
    [decided] = fake.agents.deciders
    assert decided.address.cell == CRITIC
    verdict(fake, said("approve", "it is"), approvals=(replace(CALL, **DECIDED),))
    await teams.settle(restarted(fake))
    assert status(fake)["outcome"] == "Succeeded"
    [call] = status(fake)["approvals"]
    assert (call["cell"], call["outcome"], call["by"]) == ("critic-0", "approved", "ana")


async def test_call_of_the_reviewer_that_is_no_longer_reported_does_not_wait() -> None:
    fake = await under_review()
    calls = [
        replace(CALL, call=f"call-{n:02}", requested_at=f"2026-03-01T12:{n:02}:00+00:00")
        for n in range(25)
    ]
    decided = [replace(call, **DECIDED) for call in calls[5:20]]
    for reported in (calls[:20], [*decided, *calls[20:]]):
        fake.agents.tasks[message_id(fake, 1, "review")] = AgentTask(
            TaskState.INPUT_REQUIRED, usage=REVIEW, approvals=tuple(reported)
        )
        await passes(fake, 2)
    waiting = [call["call"] for call in status(fake)["approvals"] if "outcome" not in call]
    assert waiting == [call.call for call in calls[20:]]


@pytest.mark.parametrize("changes", [{}, {"formationRef": None, "cellRef": "team-lead-0"}])
async def test_decision_about_the_call_of_a_peer_goes_to_the_peer(changes: dict[str, Any]) -> None:
    fake = await serving(team(), teams.work(**changes))
    await passes(fake)
    of_peer = replace(CALL, cell="critic-0")
    waiting = AgentTask(TaskState.INPUT_REQUIRED, usage=WORK, approvals=(of_peer,))
    fake.agents.tasks[message_id(fake, 1, "work")] = waiting
    await passes(fake, 2)
    approve(fake)
    await passes(fake, 1)
    [decided] = fake.agents.deciders
    assert decided.address.cell == CRITIC
    answered = (replace(of_peer, **DECIDED),)
    answer(fake, "Done.")
    task = fake.agents.tasks[message_id(fake, 1, "work")]
    fake.agents.tasks[message_id(fake, 1, "work")] = replace(task, approvals=answered)
    await teams.settle(fake)
    [call] = status(fake)["approvals"]
    assert (call["cell"], call["outcome"]) == ("critic-0", "approved")


async def test_decision_about_the_call_of_a_cell_outside_the_team_goes_nowhere() -> None:
    fake = await serving(team(), teams.work())
    await passes(fake)
    stranger = replace(CALL, cell="stranger-0")
    waiting = AgentTask(TaskState.INPUT_REQUIRED, usage=WORK, approvals=(stranger,))
    fake.agents.tasks[message_id(fake, 1, "work")] = waiting
    await passes(fake, 2)
    approve(fake)
    await passes(fake, 2)
    assert fake.agents.deciders == []


async def test_cell_continues_the_review_of_a_task_whose_ended_job_is_deleted() -> None:
    cells = [
        {"name": "lead", "spec": {"mode": "Task", "mind": MIND}},
        {"name": "critic", "spec": {"mind": MIND}},
    ]
    fake = fake_world(teams.team(cells=cells), reviewed())
    await teams.settle_team(fake)
    services.pod(fake, ObjectRef("Deployment", "demo", "team-critic-0"), status=services.ready())
    await teams.settle_team(fake)
    await teams.settle(fake)
    teams.succeed(fake, "It was DNS.")
    await passes(fake)
    assert len(reviews(fake)) == 1
    fake.cluster.remove(teams.job_ref())
    for ref in fake.cluster.refs("Pod"):
        if ref.name.startswith("doctor"):
            fake.cluster.remove(ref)
    verdict(fake, said("approve", "The cause is named."))
    await teams.settle(restarted(fake))
    assert (status(fake)["outcome"], status(fake)["attempt"]) == ("Succeeded", 1)
    assert condition(fake, "Succeeded")[2].endswith("critic-0 approved: The cause is named.")
