"""Read the state of an attempt from its Job, the Job's Events and its pods.

The times and conditions of the Job show when and how it ended; the pods show why, as the kubelet
reports it. The status of the Mission is never read here. `attempt_checks` applies the results of
the checks and of a review.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from kais import agent_results, labels
from kais.agent_results import AgentResult, AgentUsage, Artifact, FailureClass
from kais.approvals import CallApproval
from kais.mcp_servers import Reports
from kais.reasons import Reason
from kais_operator.controllers.cell.decide import base_pod_spec
from kais_operator.controllers.mission.decide import (
    attempt_pods,
    cost_gate,
    mind_usage,
    termination_message,
)
from kais_operator.controllers.mission.decide.attempt_pods import Refusal
from kais_operator.controllers.mission.decide.check_results import Result
from kais_operator.controllers.mission.decide.cost_gate import LimitedPods
from kais_operator.controllers.mission.decide.review import ReviewMessage, Verdict
from kais_operator.planning import annotation_values, children, pod_diagnosis
from kais_operator.planning.plan import Body

_NO_USAGE = AgentUsage()
"""The usage of a pod that ended without a report, and so before its first call of the model."""


class State(StrEnum):
    """The state of an attempt. In Checking and Reviewing its task has succeeded."""

    WAITING = "Waiting"
    RUNNING = "Running"
    CHECKING = "Checking"
    REVIEWING = "Reviewing"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    TIMED_OUT = "TimedOut"
    LOST = "Lost"


OPEN = frozenset({State.WAITING, State.RUNNING, State.CHECKING, State.REVIEWING})
"""States that are not final."""
_PHASES = {State.SUCCEEDED: "Succeeded", State.FAILED: "Failed"}
"""The phase of the pod whose end decides for this state."""


@dataclass(frozen=True)
class Attempt:
    """One attempt at the work.

    Attributes:
        number: counts from 1.
        job: the Job as read; None when it is gone, or the attempt has no Job (see `is_exec`).
        state: the state; Lost means that the cluster failed, and not the work.
        started_at: when its first Job was created.
        finished_at: when its Job ended; None until then.
        problem_reason: why its pod does not start or work; None without a problem.
        end_message: describes the problem or the end, by the kubelet, the scheduler or kais.
        exit_code: of the task; None while it has none or it is unknown. A running attempt with an
            exit code waits for its Job to count it.
        message: the task's termination message.
        is_truncated: whether the message may have been longer than the kubelet keeps.
        is_started: whether its container was seen running or ended.
        pod_startable_at: from when the pod whose container has not started could start: when its
            gate was opened, or when it was created; None without one.
        disrupted_at: when a disruption ended its latest pod, which is not replaced yet; None
            otherwise.
        refused_at: since when the API server refuses its pod; None if it does not, or did not say.
        work_ended_at: when its task ended; None while that is unknown.
        checks: the results of its checks, in their order; empty without checks.
        verdict: the reviewer's verdict; None before it, and without a review.
        is_exec: whether it is a series of checks in a running container instead of a Job.
        usage: what the models of a mind used; None if its pods reported nothing.
        pod_usages: what each of its pods that worked reported, by UID; None before its end is seen.
            A pod whose gate is opened has an entry from then on.
        open_pods: UIDs of its pods that have not ended.
        reserved: what a mind may cost in this attempt, in US dollars; 0 without a limit.
        limited: its pods, if a limit on costs applies.
        failure: why a mind gave no answer; None if it did, or for other tasks.
        artifacts: the files that a mind wrote, with paths relative to the workspace.
        receipt: of the facts that came with its message; None for other attempts.
        message_id: the message that a cell which serves A2A got; None for other attempts.
        pod_uid: the pod that was ready when the message was sent.
        approvals: its tool calls that wait for a person, or how they were decided.
        servers: what the pod of a Task reported about its MCP servers.
        review: the message to the cell that reviews it; None before it, and for other reviewers.
    """

    number: int
    job: Body | None
    state: State
    started_at: datetime
    finished_at: datetime | None = None
    problem_reason: Reason | None = None
    end_message: str = ""
    exit_code: int | None = None
    message: str = ""
    is_truncated: bool = False
    is_started: bool = False
    pod_startable_at: datetime | None = None
    disrupted_at: datetime | None = None
    refused_at: datetime | None = None
    work_ended_at: datetime | None = None
    checks: tuple[Result, ...] = ()
    verdict: Verdict | None = None
    is_exec: bool = False
    usage: AgentUsage | None = None
    pod_usages: Mapping[str, AgentUsage | None] = field(default_factory=dict)
    open_pods: frozenset[str] = frozenset()
    reserved: Decimal = Decimal(0)
    limited: LimitedPods | None = None
    failure: FailureClass | None = None
    artifacts: tuple[Artifact, ...] = ()
    receipt: str | None = None
    message_id: str | None = None
    pod_uid: str | None = None
    review: ReviewMessage | None = None
    approvals: tuple[CallApproval, ...] = ()
    servers: Reports = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether the attempt has reached a final state."""
        return self.state not in OPEN

    @property
    def is_counted(self) -> bool:
        """Whether all containers of the attempt have ended and only the Job's status is missing."""
        if self.state is State.CHECKING:
            return not self.is_exec and all(result.is_final for result in self.checks)
        return self.state is State.RUNNING and self.exit_code is not None

    @property
    def job_created_at(self) -> datetime:
        """When its Job was created, which is later than its start if an earlier one was deleted."""
        created = (self.job or {}).get("metadata", {}).get("creationTimestamp")
        return parse_time(created) or self.started_at

    @property
    def job_name(self) -> str | None:
        """Name of its Job; None without one."""
        return str(self.job["metadata"]["name"]) if self.job is not None else None


def read_attempts(
    jobs: Sequence[Body],
    pods_seen: Sequence[Body],
    *,
    owner_uid: str,
    run_id: str | None = None,
    refused_pods: Mapping[str, Refusal] | None = None,
    now: datetime,
) -> list[Attempt]:
    """Read the attempts of one run, oldest first. Jobs of other owners or runs are ignored.

    Args:
        jobs: Jobs that may belong to the run.
        pods_seen: pods of these Jobs.
        owner_uid: UID of the Mission that must own the Jobs.
        run_id: the run; Jobs without a run-id belong to it too.
        refused_pods: why the API server refuses the pod of a Job, by the Job's name.
        now: an aware time.
    """
    owned_jobs = [
        job
        for job in jobs
        if children.controller_uid(job) == owner_uid and run_of(job) in (None, run_id)
    ]
    attempts = [
        _read_with_usage(job, attempt_pods.pods_of(job, pods_seen), now) for job in owned_jobs
    ]
    attempts = [_with_refusal(attempt, pods_seen, refused_pods or {}) for attempt in attempts]
    return sorted(attempts, key=lambda attempt: attempt.number)


def _read_with_usage(job: Body, pods: Sequence[Body], now: datetime) -> Attempt:
    attempt = replace(
        _read(job, pods, now),
        pod_usages=_pod_usages(job, pods),
        open_pods=frozenset(
            pod["metadata"]["uid"] for pod in pods if not attempt_pods.has_ended(pod)
        ),
        reserved=_reserved_cost(job) if _is_mind_job(job) else Decimal(0),
        limited=cost_gate.observe(job, pods),
    )
    return with_pod_usages(attempt, {})


def with_pod_usages(attempt: Attempt, recorded: Mapping[str, AgentUsage | None]) -> Attempt:
    """Add up what all pods of an attempt report: a disrupted pod is replaced, but was paid for.

    `recorded` has what earlier reconciles saw of pods that may be gone. The agent runtime reports
    when it starts, and before each call of the model. If the report of a pod that worked is lost,
    all that was reserved for the attempt counts as spent, as an estimate: whether the attempt has
    ended or not, because its run may be ended before another pod starts.
    """
    seen = {uid: usage for uid, usage in attempt.pod_usages.items() if usage is not None}
    usages = {**attempt.pod_usages, **recorded, **seen}
    attempt, usages = _with_gated_pod(attempt, usages)
    usage = mind_usage.total(each for each in usages.values() if each != _NO_USAGE)
    if _has_lost_report(attempt, usages):
        usage = mind_usage.with_reserved(usage, attempt.reserved)
    return replace(attempt, usage=usage, pod_usages=usages)


def _with_gated_pod(
    attempt: Attempt, usages: dict[str, AgentUsage | None]
) -> tuple[Attempt, dict[str, AgentUsage | None]]:
    """Record the pod whose gate is to be opened, or end an attempt that has spent its limit.

    The record is written before the gate is opened, so a pod that vanishes unseen counts.
    """
    limited = attempt.limited
    if limited is None or limited.gated is None or attempt.is_over:
        return attempt, usages
    uid = limited.gated["metadata"]["uid"]
    if limited.is_opened(usages):
        return attempt, {**usages, uid: None}
    if not limited.is_used_up(usages):
        return attempt, usages
    ended = replace(
        attempt,
        state=State.FAILED,
        finished_at=parse_time(limited.gated["metadata"].get("creationTimestamp")),
        end_message=limited.used_up_message(usages),
        is_started=True,
        problem_reason=None,
        failure=FailureClass.BUDGET,
    )
    return ended, {each: usage for each, usage in usages.items() if each != uid}


def _pod_usages(job: Body, pods: Sequence[Body]) -> dict[str, AgentUsage | None]:
    """Return what the pods of a Job that work or have worked report, by their UIDs."""
    usages: dict[str, AgentUsage | None] = {}
    for pod in pods:
        usage = _final_usage(pod, is_mind=_is_mind_job(job))
        if usage is None and cost_gate.was_free(job, pod):
            usage = _NO_USAGE
        is_working = _is_mind_job(job) and attempt_pods.has_started(pod, base_pod_spec.TASK)
        if usage is not None or is_working:
            usages[pod["metadata"]["uid"]] = usage
    return usages


def reported_without_job(
    recorded: Mapping[str, AgentUsage | None], pods: Sequence[Body]
) -> dict[str, AgentUsage | None]:
    """Add to the record of an attempt what its pods report after its Job was deleted.

    Only recorded pods count: anyone may create a pod with the label of the mission.
    """
    usages = dict(recorded)
    for pod in pods:
        uid = pod["metadata"]["uid"]
        if uid in recorded and recorded[uid] is None:
            usage = _final_usage(pod, is_mind=True)
            usages[uid] = _NO_USAGE if usage is None and cost_gate.never_starts(pod) else usage
    return usages


def _final_usage(pod: Body, *, is_mind: bool) -> AgentUsage | None:
    """Return what the task of a pod has used in all; None if that is unknown, or it works."""
    ended = attempt_pods.container_state(pod, base_pod_spec.TASK).get("terminated") or {}
    report = agent_results.parse(ended.get("message") or "")
    if report is not None:
        return mind_usage.bounded(report.usage)
    has_ended = bool(ended) and ended.get("reason") != attempt_pods.NEVER_SEEN
    return _NO_USAGE if is_mind and has_ended else None


def _has_lost_report(attempt: Attempt, usages: Mapping[str, AgentUsage | None]) -> bool:
    """Whether the task worked in a pod whose end was not seen, and will not be seen.

    While the attempt is open, a pod that has not ended may still report.
    """
    not_started = attempt.limited.not_started if attempt.limited is not None else frozenset()
    reporting = not_started if attempt.is_over else attempt.open_pods
    lost = [uid for uid, usage in usages.items() if usage is None and uid not in reporting]
    return bool(lost) or (attempt.state is State.SUCCEEDED and not usages)


def has_unseen_end(job: Body, pods_seen: Sequence[Body]) -> bool:
    """Whether a Job has ended and none of its pods shows how, possibly because a watch lags."""
    states = [
        attempt_pods.container_state(pod, base_pod_spec.TASK)
        for pod in attempt_pods.pods_of(job, pods_seen)
    ]
    return has_ended(job) and not any("terminated" in state for state in states)


def _reserved_cost(job: Body) -> Decimal:
    """Return what was reserved for an attempt; 0 without a limit."""
    limit = cost_gate.limit_of(job)
    if limit is not None:
        return limit
    try:  # the Job of an earlier version, whose pods have no gate
        return annotation_values.parse_cost(_environment(job, labels.ENV_MAX_COST) or "0")
    except ValueError:
        return Decimal(0)  # someone edited the Job


def is_of_mind(attempt: Attempt) -> bool:
    """Whether the attempt's task is the agent runtime, which reports its usage when it ends."""
    return _is_mind_job(attempt.job or {})


def _is_mind_job(job: Body) -> bool:
    return _environment(job, labels.ENV_RESULT_BYTES) is not None


def _environment(job: Body, name: str) -> str | None:
    """Return a variable of a container in the pod template of a Job; None if none has it."""
    spec = ((job.get("spec") or {}).get("template") or {}).get("spec") or {}
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    variables = (each for container in containers for each in container.get("env") or ())
    return next((each.get("value") for each in variables if each["name"] == name), None)


def awaits_replacement(attempt: Attempt) -> bool:
    """Whether the Job of an attempt has no pod, although the Job controller could create one.

    An evicted pod may be gone for a moment before it is replaced.
    """
    is_podless = attempt.state is State.WAITING and attempt.pod_startable_at is None
    has_begun = bool(((attempt.job or {}).get("status") or {}).get("startTime"))
    return is_podless and has_begun and attempt.problem_reason is None


def awaits_open_gate(attempt: Attempt) -> bool:
    """Whether the start of an attempt waits only until its operator opens the gate of its pod."""
    return attempt.limited is not None and attempt.limited.is_opened(attempt.pod_usages)


def is_without_pod(attempt: Attempt, pods_seen: Sequence[Body]) -> bool:
    """Whether the attempt waits and its Job has no pod, or only pods that are to be replaced."""
    if attempt.state is not State.WAITING or attempt.job is None:
        return False
    return not attempt_pods.not_replaced(attempt_pods.pods_of(attempt.job, pods_seen))


def _with_refusal(
    attempt: Attempt, pods_seen: Sequence[Body], refused_pods: Mapping[str, Refusal]
) -> Attempt:
    refusal = refused_pods.get(attempt.job_name or "")
    if refusal is None or not is_without_pod(attempt, pods_seen):
        return attempt
    return replace(
        attempt,
        problem_reason=Reason.POD_NOT_CREATED,
        end_message=f"Job {attempt.job_name} has no pod: {refusal.message}",
        refused_at=parse_time(refusal.since),
    )


def run_of(job: Body) -> str | None:
    """Return the run-id of a Job, from its annotation or else from its containers' environment."""
    annotation: str | None = (job["metadata"].get("annotations") or {}).get(labels.RUN_ID)
    if annotation is not None:
        return annotation
    spec = ((job.get("spec") or {}).get("template") or {}).get("spec") or {}
    variables = [
        variable.get("value")
        for container in spec.get("containers") or ()
        for variable in container.get("env") or ()
        if variable["name"] == labels.ENV_RUN_ID
    ]
    return variables[0] if variables else None


def number_of(job: Body) -> int:
    """Return an attempt's number: from the Job's annotation, else from the Job's name, else 1."""
    annotation = (job["metadata"].get("annotations") or {}).get(labels.ATTEMPT, "")
    tail = job["metadata"]["name"].rpartition("-a")[2]
    return annotation_values.parse_digits(annotation) or annotation_values.parse_digits(tail) or 1


def has_ended(job: Body) -> bool:
    """Whether the Job has a condition Complete or Failed that is True."""
    return _job_condition(job) is not None


def parse_time(text: str | None) -> datetime | None:
    """Parse a time of the API server; None for no text."""
    return datetime.fromisoformat(text) if text else None


def _read(job: Body, pods_seen: Sequence[Body], now: datetime) -> Attempt:
    started = parse_time(job["metadata"].get("creationTimestamp")) or now
    ended = _job_condition(job)
    if ended is None:
        return _read_open(job, pods_seen, started, now=now)
    type_, condition = ended
    status = job.get("status") or {}
    finished = parse_time(status.get("completionTime") or condition.get("lastTransitionTime"))
    if type_ == "Complete":
        return _read_end(job, pods_seen, State.SUCCEEDED, started, finished=finished or now)
    if condition.get("reason") == "DeadlineExceeded":
        return _read_end(job, pods_seen, State.TIMED_OUT, started, finished=finished or now)
    return _read_end(job, pods_seen, State.FAILED, started, finished=finished or now)


def _job_condition(job: Body) -> tuple[str, Mapping[str, Any]] | None:
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return condition["type"], condition
    return None


def _read_open(
    job: Body, pods_seen: Sequence[Body], started: datetime, *, now: datetime
) -> Attempt:
    number, pods = number_of(job), attempt_pods.not_replaced(pods_seen)
    if not pods:
        return Attempt(
            number,
            job,
            State.WAITING,
            started,
            disrupted_at=parse_time(attempt_pods.disruption_ended_at(pods_seen)),
            end_message=_starting_message(number),
        )
    pod = pods[-1]
    if pod_diagnosis.is_stuck(pod, now):
        message = pod_diagnosis.stuck_message(pod)
        return Attempt(number, job, State.LOST, started, now, Reason.POD_STUCK, message)
    state = attempt_pods.container_state(pod, base_pod_spec.TASK)
    if "running" in state or "terminated" in state:
        running = Attempt(number, job, State.RUNNING, started, is_started=True)
        ended = state.get("terminated")
        return running if ended is None else _with_end(running, ended, pod)
    waiting = Attempt(
        number,
        job,
        State.WAITING,
        started,
        pod_startable_at=cost_gate.opened_at(pod)
        or parse_time(pod["metadata"].get("creationTimestamp")),
        end_message=_starting_message(number),
    )
    diagnosis = pod_diagnosis.why_waiting(pod, state)
    if diagnosis is None:
        return waiting
    message = f"{pod_diagnosis.name_of(pod)}: {diagnosis[1]}"
    return replace(waiting, problem_reason=diagnosis[0], end_message=message)


def _starting_message(number: int) -> str:
    """Return the same message whether there is a pod or not, because each change is a write."""
    return f"attempt {number} is being started"


def _with_end(attempt: Attempt, ended: Mapping[str, Any], pod: Body | None) -> Attempt:
    message = ended.get("message") or ""
    ended_attempt = replace(
        attempt,
        exit_code=ended.get("exitCode"),
        message=termination_message.clean(message),
        is_truncated=termination_message.is_truncated(message, pod or {}),
        work_ended_at=parse_time(ended.get("finishedAt")),
    )
    report = agent_results.parse(message)
    return ended_attempt if report is None else _with_report(ended_attempt, report)


def _with_report(attempt: Attempt, report: AgentResult) -> Attempt:
    """Replace the termination message of a mind by its answer, or by why it gave none."""
    failure = report.failure if attempt.exit_code != 0 else None
    message = failure.message if failure is not None else report.answer
    end_message = attempt.end_message
    if failure is not None:
        end_message = f"the agent gave no answer ({failure.reason.value})"
    return replace(
        attempt,
        message=termination_message.clean(message),
        is_truncated=report.is_truncated,
        end_message=end_message,
        failure=failure.reason if failure is not None else None,
        artifacts=mind_usage.readable_artifacts(report.artifacts),
        servers=report.servers,
    )


def _read_end(
    job: Body, pods_seen: Sequence[Body], state: State, started: datetime, *, finished: datetime
) -> Attempt:
    pod = attempt_pods.deciding_pod(pods_seen, _PHASES.get(state))
    task = attempt_pods.container_state(pod, base_pod_spec.TASK) if pod is not None else {}
    ended: Mapping[str, Any] = task.get("terminated") or {}
    if ended.get("reason") == attempt_pods.NEVER_SEEN:
        ended = {}
    number, code = number_of(job), ended.get("exitCode")
    if state is not State.SUCCEEDED and pod is not None and attempt_pods.exceeded_deadline(pod):
        state = State.TIMED_OUT
    is_started = bool(ended) or "running" in task
    if (
        state is State.TIMED_OUT
        and not is_started
        and (pod is not None or attempt_pods.has_pod_limit(job))
    ):
        message = attempt_pods.not_started_message(pod, task)
        return Attempt(number, job, State.LOST, started, finished, Reason.POD_FAILED, message)
    is_unknown = code is None or (code == 0 and attempt_pods.was_ended_by_node(pod))
    if state is State.FAILED and is_unknown:
        message = _lost_message(job, pod)
        return Attempt(number, job, State.LOST, started, finished, Reason.POD_FAILED, message)
    message = _end_message(state, ended)
    attempt = Attempt(
        number, job, state, started, finished, end_message=message, is_started=is_started
    )
    return _with_end(attempt, ended, pod)


def _lost_message(job: Body, pod: Body | None) -> str:
    status = (pod or {}).get("status") or {}
    failed_init = pod_diagnosis.failed_init_container(pod or {}, excluding=base_pod_spec.TASK)
    if failed_init is not None:
        return f"the task was not started: {failed_init}"
    if status.get("reason") or status.get("message"):
        return (
            f"{status.get('reason', 'Failed')}: {status.get('message', 'no details are available')}"
        )
    condition = (_job_condition(job) or ("", {}))[1]
    message = condition.get("message") or "its Job failed"
    return f"{message}; its pod is gone, so it is unknown how the task ended"


def _end_message(state: State, ended: Mapping[str, Any]) -> str:
    if state is State.SUCCEEDED:
        return "the task succeeded"
    if state is State.TIMED_OUT:
        return "the time for all attempts ran out"
    if ended.get("reason") == "OOMKilled":
        return "the task used more memory than its limit and was killed (OOMKilled)"
    reason = ended.get("reason")
    suffix = f" ({reason})" if reason not in (None, "Error") else ""
    hint = pod_diagnosis.root_hint(ended.get("message") or "")
    return f"the task ended with exit code {ended.get('exitCode')}{suffix}{hint}"
