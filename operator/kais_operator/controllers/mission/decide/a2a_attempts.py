"""Attempts of a mission whose entry cell serves A2A: one message, and the task that it opens.

    no attempt yet            -> stamp number, message and pod; then send the message
    connection refused        -> send it again, also to a pod that was replaced since
    task unknown, same pod    -> send it again, if the server recognises a repeat
    task unknown otherwise    -> the attempt is interrupted, and the next one has a new message
    task has ended            -> its answer is checked and reviewed, or its failure ends the attempt
    run ends before its task  -> cancel the task, then record the outcome with what it has cost

The stamp is written before the message is sent. So whatever is killed, a message is sent again only
to a server that recognises it, or if this process knows that no server got it. A task is counted
once, when its result is recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from kais import a2a, names, trace_context
from kais.agent_results import AgentUsage, FailureClass
from kais.reasons import Reason
from kais_operator.controllers.cell.decide import cell_identity
from kais_operator.controllers.mission.decide import (
    attempt_record,
    cost_reservations,
    entrypoint,
    knowledge_injection,
    mind_usage,
    run_history_annotation,
    termination_message,
    tool_approvals,
)
from kais_operator.controllers.mission.decide.attempt_record import AttemptSummary
from kais_operator.controllers.mission.decide.attempt_state import Attempt, State
from kais_operator.controllers.mission.decide.entrypoint import Entrypoint, NotReady
from kais_operator.controllers.mission.decide.mission_observed import (
    MissionObserved,
    RunningContainer,
    ref_of,
)
from kais_operator.controllers.mission.decide.outcome_annotation import RunOutcome
from kais_operator.controllers.mission.decide.run_history_annotation import AttemptHistory
from kais_operator.planning.agent_tasks import (
    ENDED,
    WAITING_FOR_PEOPLE,
    AgentReply,
    AgentTask,
    TaskState,
)
from kais_operator.planning.plan import (
    Action,
    AgentAddress,
    AgentCall,
    CancelTask,
    DecideToolCall,
    ObjectRef,
    SendMessage,
)

PAUSE = timedelta(seconds=5)
"""Pause between a failed attempt and the next one; an arbitrary number."""
_SHORTEST_POLL, _LONGEST_POLL = timedelta(seconds=1), timedelta(seconds=5)
_LONGEST_POLL_OF_HANGING = timedelta(seconds=20)
_STALE = timedelta(seconds=a2a.STALE_S)

Step = tuple[NotReady | None, tuple[Action, ...], timedelta | None]


def address_of(entry: Entrypoint) -> AgentAddress:
    """Return where the entry cell serves A2A."""
    cell = entry.cell
    server = cell.spec.container.a2a if cell.spec.container is not None else None
    namespace = cell.metadata.namespace
    return AgentAddress(
        cell=ObjectRef(cell.kind, namespace, cell.metadata.name),
        service=names.service_name(cell.metadata.name),
        port=server.port if server is not None else a2a.PORT,
        path=_with_slash(server.path if server is not None else "/"),
        account=f"system:serviceaccount:{namespace}:{entry.identity.account}",
    )


def call_of(
    observed: MissionObserved, entry: Entrypoint, attempt: Attempt | AttemptSummary, *, run_id: str
) -> AgentCall:
    """Return the part of an attempt's message that identifies the task."""
    return AgentCall(
        mission=ref_of(observed.mission),
        address=address_of(entry),
        run_id=run_id,
        attempt=attempt.number,
        message_id=attempt.message_id or a2a.message_id(run_id, attempt.number, "work"),
        arm=knowledge_injection.arm_of(observed.mission),
        traceparent=trace_context.of_run(observed.mission.metadata.annotations, run_id),
    )


def awaits_reply(history: AttemptHistory) -> bool:
    """Whether the latest attempt has a message whose result is not recorded."""
    last = history.latest
    return last is not None and last.message_id is not None and last.state is State.RUNNING


def next_attempt(
    observed: MissionObserved,
    attempts: Sequence[Attempt],
    entry: Entrypoint,
    *,
    run_id: str,
    now: datetime,
) -> Step:
    """Choose the stamp of the next attempt and its message, or return the obstacle."""
    previous = attempts[-1] if attempts else None
    if previous is not None and previous.finished_at is not None:
        due = previous.finished_at + PAUSE
        if now < due:
            message = "the next attempt follows after a pause"
            return NotReady(Reason.RETRYING, message), (), due - now
    container = observed.container
    if container is None:
        message = f"{entry.cell.ref} has no ready pod"
        return NotReady(Reason.WAITING_FOR_PODS, message), (), _SHORTEST_POLL
    claim = cost_reservations.claim(observed, attempts, entry.cell, now=now)
    if claim.step is not None:
        return claim.step
    number = previous.number + 1 if previous else 1
    attempt = Attempt(
        number, None, State.RUNNING, now, is_started=True, is_exec=True,
        message_id=a2a.message_id(run_id, number, "work"), pod_uid=container.uid,
    )  # fmt: skip
    stamp = run_history_annotation.stamp(observed.mission, [*attempts, attempt])
    message_action = _message(observed, [*attempts, attempt], entry, run_id=run_id, now=now)
    stale = (
        [CancelTask(call_of(observed, entry, previous, run_id=run_id))]
        if previous is not None and _may_still_work(previous, container)
        else []
    )
    first = replace(message_action, is_first=True)
    return None, (stamp, *stale, first), _SHORTEST_POLL


def await_task(
    observed: MissionObserved,
    attempts: Sequence[Attempt],
    entry: Entrypoint | NotReady,
    *,
    run_id: str,
    now: datetime,
) -> Step:
    """Send the message of the open attempt again if that is safe and needed; otherwise wait."""
    last, reply = attempts[-1], observed.reply
    poll = poll_delay(last.started_at, now, reply)
    if isinstance(entry, NotReady):
        return entry, (), poll
    is_unknown = reply is not None and reply.problem is None and reply.task is None
    if is_unknown and reply is not None and may_send_again(last, reply, observed.container):
        message_action = _message(observed, attempts, entry, run_id=run_id, now=now)
        return None, (message_action,), poll
    passed_on = pass_on(observed, last, call_of(observed, entry, last, run_id=run_id))
    return None, passed_on, _SHORTEST_POLL if passed_on else poll


def pass_on(
    observed: MissionObserved, attempt: Attempt, call: AgentCall
) -> tuple[DecideToolCall, ...]:
    """Pass the decisions of a person on to the cells whose calls wait.

    `call` is the message of the cell that reports the calls; a peer has an address of its own.
    """
    waiting = {
        waiting_call.call: waiting_call
        for waiting_call in tool_approvals.waiting_calls(attempt.approvals)
    }
    decisions = tool_approvals.read(observed, tuple(waiting.values())).about_calls
    addressed = (
        (_at(observed, call, waiting[decision.call].cell), decision) for decision in decisions
    )
    return tuple(
        DecideToolCall(target, decision) for target, decision in addressed if target is not None
    )


def _at(observed: MissionObserved, call: AgentCall, cell_name: str | None) -> AgentCall | None:
    """Return a call at a cell of the team; None if there is no such cell."""
    if cell_name is None:
        return call
    cells = {**observed.team.members, **observed.team.cells}.values()
    cell = next(
        (candidate for candidate in cells if cell_identity.short_name(candidate) == cell_name), None
    )
    if cell is None or not cell.spec.serves_a2a:
        return None
    entry = entrypoint.entrypoint_of(cell, replace(observed.team, sharing=()))
    return replace(call, address=address_of(entry))


def poll_delay(sent_at: datetime, now: datetime, reply: AgentReply | None) -> timedelta:
    """Return when to poll a task again: less often with time.

    A cell that hangs holds a reconcile until the request times out, so it is asked less often.
    """
    is_hanging = reply is not None and reply.problem is not None
    longest = _LONGEST_POLL_OF_HANGING if is_hanging else _LONGEST_POLL
    return min(max((now - sent_at) / 4, _SHORTEST_POLL), longest)


def with_reply(
    history: AttemptHistory,
    reply: AgentReply | None,
    container: RunningContainer | None,
    now: datetime,
    *,
    is_ending: bool = False,
) -> AttemptHistory:
    """Apply what a cell answered to the latest attempt. Reads no clock.

    If the run is ending, a cancelled task leaves its attempt open, because the outcome says why.
    A task that a replaced pod had is gone, because a new pod begins without its state.
    """
    last = history.latest
    if last is None or not awaits_reply(history):
        return history
    judged = judge(last, reply, container, now, is_ending=is_ending)
    if judged is None:
        return history
    return replace(history, attempts=(*history.attempts[:-1], judged))


def judge(
    last: Attempt,
    reply: AgentReply | None,
    container: RunningContainer | None,
    now: datetime,
    *,
    is_ending: bool = False,
) -> Attempt | None:
    """Apply what a cell answered to an attempt whose message is open; None without a change.

    A message that no server got goes to the pod that is ready now. A task whose end was read before
    its pod was replaced counts.
    """
    task = reply.task if reply is not None else None
    has_ended = task is not None and task.state in ENDED
    if container is not None and container.uid != last.pod_uid and not has_ended:
        if reply is None or not reply.is_undelivered:
            return _interrupted(last, "its pod was replaced", now)
        moved = replace(last, pod_uid=container.uid)
        return judge(moved, reply, container, now, is_ending=is_ending) or moved
    cancelled = _cancelled(last, task) if is_ending else None
    if cancelled is not None:
        return cancelled
    return _unreachable(last, reply) or _judge(last, reply or AgentReply(), container, now)


def cancel_actions(
    observed: MissionObserved,
    attempts: Sequence[Attempt],
    entry: Entrypoint | NotReady,
    *,
    run_id: str,
) -> list[Action]:
    """Cancel the task of the latest attempt, unless it has ended."""
    last = attempts[-1] if attempts else None
    if last is None or last.message_id is None or isinstance(entry, NotReady):
        return []
    task = observed.reply.task if observed.reply is not None else None
    has_ended = task is not None and task.state in ENDED
    is_working = last.state is State.RUNNING or (observed.reply is not None and last.is_over)
    if has_ended or not is_working:
        return []
    return [CancelTask(call_of(observed, entry, last, run_id=run_id))]


def open_message(run_outcome: RunOutcome | None) -> AttemptSummary | None:
    """Return the attempt of an ended run whose task had not ended; None without one."""
    last = run_outcome.attempts[-1] if run_outcome is not None and run_outcome.attempts else None
    is_open = last is not None and last.message_id is not None and last.state is State.RUNNING
    return last if is_open else None


def repeat_cancel(
    observed: MissionObserved,
    run_outcome: RunOutcome,
    entry: Entrypoint | NotReady,
    *,
    run_id: str,
) -> list[Action]:
    """Cancel the task of an ended run again if it still works, in the pod that got its message."""
    last, reply = open_message(run_outcome), observed.reply
    task = reply.task if reply is not None else None
    if last is None or task is None or task.state in ENDED or isinstance(entry, NotReady):
        return []
    return [CancelTask(call_of(observed, entry, last, run_id=run_id))]


def awaits_cancel(observed: MissionObserved, attempts: Sequence[Attempt]) -> bool:
    """Whether the outcome waits for the cancellation of a task, whose usage is part of it.

    It waits once, and only for a cell that has just answered.
    """
    reply = observed.reply
    if reply is None or reply.problem is not None or attempts[-1].state is not State.RUNNING:
        return False
    return not reply.is_cancel_sent and (reply.task is not None or reply.is_sending)


def _cancelled(last: Attempt, task: AgentTask | None) -> Attempt | None:
    if task is None or task.state is not TaskState.CANCELED:
        return None
    return replace(
        last, usage=_usage(last, task), receipt=task.receipt, end_message="its task is cancelled"
    )


def _may_still_work(previous: Attempt, container: RunningContainer) -> bool:
    """Whether the task of an interrupted attempt may continue in the pod that got its message."""
    is_same_pod = previous.message_id is not None and previous.pod_uid == container.uid
    return is_same_pod and previous.failure is FailureClass.INTERRUPTED


def _unreachable(last: Attempt, reply: AgentReply | None) -> Attempt | None:
    """Return an attempt whose cell cannot be asked: it waits within the mission's timeout."""
    if reply is not None and reply.problem is None:
        return None
    problem = reply.problem if reply is not None else "it has no ready pod"
    message = f"the cell does not answer: {problem}"
    return replace(last, problem_reason=Reason.WAITING_FOR_PODS, end_message=message)


def _judge(
    last: Attempt, reply: AgentReply, container: RunningContainer | None, now: datetime
) -> Attempt | None:
    task = reply.task
    if task is None and reply.refusal is not None:
        return _failed(last, f"the cell refused the message: {reply.refusal}", now)
    if task is None:
        if container is None or reply.is_sending or may_send_again(last, reply, container):
            return None
        return _interrupted(last, "it is unknown whether the cell got its message", now)
    if task.state in ENDED:
        return _ended(last, task, now)
    is_stale = (
        reply.has_heartbeat
        and container is not None
        and task.state not in WAITING_FOR_PEOPLE
        and task.heartbeat is not None
        and now - task.heartbeat > _STALE
    )
    if is_stale:
        message = f"the agent has given no sign of life for {a2a.STALE_S} s"
        return replace(_interrupted(last, message, now), usage=_usage(last, task))
    return replace(
        last, usage=_usage(last, task), end_message=_progress(task), approvals=task.approvals
    )


def may_send_again(last: Attempt, reply: AgentReply, container: RunningContainer | None) -> bool:
    """Whether a message whose task is unknown may be sent again.

    It may if no server got it, or if the same server recognises a repeat.
    """
    if container is None or reply.is_sending or reply.refusal is not None:
        return False
    return reply.is_undelivered or (reply.is_idempotent and container.uid == last.pod_uid)


def _ended(last: Attempt, task: AgentTask, now: datetime) -> Attempt:
    reported = replace(
        last, usage=_usage(last, task), receipt=task.receipt, approvals=task.approvals
    )
    if task.state is not TaskState.COMPLETED:
        return _with_failure(reported, task, now)
    text = termination_message.clean(task.answer)
    is_cut = len(task.answer.strip().encode("utf-8", "replace")) > termination_message.RESULT_BYTES
    return replace(
        reported,
        state=State.CHECKING,
        exit_code=0,
        message=text,
        is_truncated=task.is_truncated or is_cut,
        work_ended_at=now,
        artifacts=mind_usage.readable_artifacts(task.artifacts),
    )


def _with_failure(attempt: Attempt, task: AgentTask, now: datetime) -> Attempt:
    if task.failure is not None:
        message = termination_message.clean(task.failure.message)
        end_message = f"the agent gave no answer ({task.failure.reason.value}): {message}"
        failed = _failed(attempt, end_message.removesuffix(": "), now)
        return replace(failed, failure=task.failure.reason)
    if task.state is TaskState.CANCELED:
        return _interrupted(attempt, "its task was cancelled by another caller", now)
    verb = "rejected the task" if task.state is TaskState.REJECTED else "failed"
    message = termination_message.clean(task.message)
    return _failed(attempt, f"the agent {verb}{': ' if message else ''}{message}", now)


def _interrupted(attempt: Attempt, message: str, now: datetime) -> Attempt:
    end_message = f"the attempt was interrupted: {message}"
    return replace(_failed(attempt, end_message, now), failure=FailureClass.INTERRUPTED)


def _failed(attempt: Attempt, message: str, now: datetime) -> Attempt:
    return replace(attempt, state=State.FAILED, finished_at=now, end_message=message[:2048])


def _usage(last: Attempt, task: AgentTask) -> AgentUsage | None:
    """Return the latest usage; of a working task, only a change of its cost is written."""
    if task.usage is None:
        return last.usage
    reported = mind_usage.bounded(task.usage)
    is_same_cost = last.usage is not None and last.usage.cost == reported.cost
    is_unchanged = is_same_cost and reported.is_priced and task.state not in ENDED
    return last.usage if is_unchanged else reported


def _progress(task: AgentTask) -> str:
    if task.state is TaskState.INPUT_REQUIRED:
        return f"the agent waits for a person: {termination_message.clean(task.message)}"
    if task.state is TaskState.AUTH_REQUIRED:
        return f"the agent waits for credentials: {termination_message.clean(task.message)}"
    return "the agent works"


def _message(
    observed: MissionObserved,
    attempts: Sequence[Attempt],
    entry: Entrypoint,
    *,
    run_id: str,
    now: datetime,
) -> SendMessage:
    """Build the message of the latest attempt; every call builds the same message."""
    mission, last = observed.mission, attempts[-1]
    previous = attempts[-2] if len(attempts) > 1 else None
    entry_message = mission.spec.entrypoint.message if mission.spec.entrypoint else None
    budget = cost_reservations.left_to_message(observed, attempts, entry.cell, now=now)
    call = call_of(observed, entry, last, run_id=run_id)
    return SendMessage(
        replace(call, budget_left=format(budget, "f") if budget is not None else None),
        text="\n\n".join(filter(None, (mission.spec.objective, entry_message))),
        metadata={"feedback": attempt_record.summarise(previous).feedback() if previous else ""},
    )


def _with_slash(path: str) -> str:
    return path if path.endswith("/") else f"{path}/"
