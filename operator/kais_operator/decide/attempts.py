"""What became of one attempt: its Job and its pods, read together.

The Job's own times and conditions say when and how it ended; the pods say why, in the kubelet's
words. Nothing here looks at a status of ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from kais import labels
from kais.reasons import Reason
from kais_operator.decide import children, pods
from kais_operator.decide.plan import Body

RESULT_BYTES = 4096
"""What the kubelet keeps of a termination message."""
LOG_BYTES = 2048
"""What the kubelet keeps of a failed container's log in place of a termination message."""
STUCK_AFTER = timedelta(seconds=60)
"""Past the end of its grace period a pod that is still there is on a lost node."""

_USUAL_WAITS = frozenset({"ContainerCreating", "PodInitializing", ""})
_PULLING = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)


class State(StrEnum):
    """Where an attempt stands."""

    WAITING = "Waiting"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    TIMED_OUT = "TimedOut"
    LOST = "Lost"


@dataclass(frozen=True)
class Attempt:
    """One try of the work.

    Attributes:
        number: from 1.
        job: the Job as read.
        state: where it stands; Lost means that the cluster, not the work, failed it.
        started_at: when its Job was made.
        finished_at: when its Job ended, None while it has not.
        trouble: why its pod does not start or work, None when there is nothing to say.
        words: the kubelet's, the scheduler's or our words about the trouble or the end.
        exit_code: of the task, None while it has none or nobody knows it. A running attempt that
            has one waits for its Job to count it.
        message: the task's termination message.
        is_truncated: whether the task may have said more than the kubelet kept.
        has_begun: whether its container was seen running or ended.
    """

    number: int
    job: Body
    state: State
    started_at: datetime
    finished_at: datetime | None = None
    trouble: Reason | None = None
    words: str = ""
    exit_code: int | None = None
    message: str = ""
    is_truncated: bool = False
    has_begun: bool = False

    @property
    def is_over(self) -> bool:
        """Whether its Job ended, or will never end because its node is lost."""
        return self.state not in (State.WAITING, State.RUNNING)


def read_all(
    jobs: Sequence[Body], pods_seen: Sequence[Body], *, owner_uid: str, now: datetime
) -> list[Attempt]:
    """Read the attempts of one mission, oldest first; Jobs of another owner are none of them."""
    own = [job for job in jobs if children.controller_uid(job) == owner_uid]
    found = [_read(job, _pods_of(job, pods_seen), now) for job in own]
    return sorted(found, key=lambda attempt: attempt.number)


def number_of(job: Body) -> int:
    """Give an attempt's number; it is in the Job's annotation, and for others in its name."""
    given = (job["metadata"].get("annotations") or {}).get(labels.ATTEMPT, "")
    tail = job["metadata"]["name"].rpartition("-a")[2]
    return int(next((text for text in (given, tail) if text.isdecimal()), "1"))


def has_ended(job: Body) -> bool:
    """Whether the Job itself says that it is over."""
    return _job_condition(job) is not None


def parse_time(text: str | None) -> datetime | None:
    """Read a time of the API server; None stays None."""
    return datetime.fromisoformat(text) if text else None


def _pods_of(job: Body, pods_seen: Sequence[Body]) -> list[Body]:
    uid = job["metadata"]["uid"]
    own = [pod for pod in pods_seen if children.controller_uid(pod) == uid]
    return sorted(own, key=lambda pod: pod["metadata"].get("creationTimestamp", ""))


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
    number = number_of(job)
    if not pods_seen:
        return Attempt(number, job, State.WAITING, started, words=_starting(number))
    pod = pods_seen[-1]
    name = f"Pod/{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"
    going_since = parse_time(pod["metadata"].get("deletionTimestamp"))
    if going_since is not None and now - going_since >= STUCK_AFTER:
        node = (pod.get("spec") or {}).get("nodeName", "its node")
        words = f"{name} stays terminating on {node}, which does not answer"
        return Attempt(number, job, State.LOST, started, now, Reason.POD_STUCK, words)
    state, _ = _container(pod)
    if "running" in state or "terminated" in state:
        code = (state.get("terminated") or {}).get("exitCode")
        return Attempt(number, job, State.RUNNING, started, exit_code=code, has_begun=True)
    trouble = _why_waiting(pod, state)
    if trouble is None:
        return Attempt(number, job, State.WAITING, started, words=_starting(number))
    return Attempt(
        number, job, State.WAITING, started, trouble=trouble[0], words=f"{name}: {trouble[1]}"
    )


def _starting(number: int) -> str:
    """Say the same with and without a pod: each new word would be a write."""
    return f"attempt {number} is being started"


def _why_waiting(pod: Body, state: Mapping[str, Any]) -> tuple[Reason, str] | None:
    waiting = state.get("waiting") or {}
    reason = waiting.get("reason", "")
    if reason not in _USUAL_WAITS:
        kind = Reason.IMAGE_PULL_FAILED if reason in _PULLING else Reason.POD_FAILED
        return kind, f"{reason}: {waiting.get('message') or 'the kubelet gives no more words'}"
    for condition in (pod.get("status") or {}).get("conditions") or ():
        is_refused = condition["type"] == "PodScheduled" and condition["status"] == "False"
        if is_refused and condition.get("reason") == "Unschedulable":
            return Reason.UNSCHEDULABLE, condition.get("message") or "no node takes the pod"
    return None


def _container(pod: Body) -> tuple[Mapping[str, Any], Body]:
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if status["name"] == pods.TASK:
            return status.get("state") or {}, status
    return {}, {}


def _read_end(
    job: Body, pods_seen: Sequence[Body], state: State, started: datetime, *, finished: datetime
) -> Attempt:
    pod = _telling_pod(pods_seen, state)
    ended: Mapping[str, Any] = {}
    if pod is not None:
        container, _ = _container(pod)
        ended = container.get("terminated") or {}
    raw = ended.get("message") or ""
    size = len(raw.encode("utf-8", "replace"))
    code = ended.get("exitCode")
    if state is State.FAILED and code is None:
        words = _lost_words(job, pod)
        return Attempt(number_of(job), job, State.LOST, started, finished, Reason.POD_FAILED, words)
    words = _end_words(state, ended)
    return Attempt(
        number_of(job), job, state, started, finished,
        words=words, exit_code=code, message=_clean(raw),
        is_truncated=size >= RESULT_BYTES or size == LOG_BYTES, has_begun=bool(ended),
    )  # fmt: skip


def _telling_pod(pods_seen: Sequence[Body], state: State) -> Body | None:
    """Find the pod whose end decided; a disrupted one was replaced and decided nothing."""
    phase = {State.SUCCEEDED: "Succeeded", State.FAILED: "Failed"}.get(state)
    undisturbed = [pod for pod in pods_seen if not _was_disrupted(pod)]
    for pod in reversed(undisturbed):
        if phase is None or (pod.get("status") or {}).get("phase") == phase:
            return pod
    return undisturbed[-1] if undisturbed else None


def _was_disrupted(pod: Body) -> bool:
    return any(
        condition["type"] == "DisruptionTarget" and condition["status"] == "True"
        for condition in (pod.get("status") or {}).get("conditions") or ()
    )


def _lost_words(job: Body, pod: Body | None) -> str:
    status = (pod or {}).get("status") or {}
    if status.get("reason") or status.get("message"):
        return f"{status.get('reason', 'Failed')}: {status.get('message', 'no more is known')}"
    condition = (_job_condition(job) or ("", {}))[1]
    words = condition.get("message") or "its Job failed"
    return f"{words}; its pod is gone, so nobody knows how the task ended"


def _end_words(state: State, ended: Mapping[str, Any]) -> str:
    if state is State.SUCCEEDED:
        return "the task succeeded"
    if state is State.TIMED_OUT:
        return "the time for all attempts ran out"
    if ended.get("reason") == "OOMKilled":
        return "the task used more memory than its limit and was killed (OOMKilled)"
    reason = ended.get("reason")
    named = f" ({reason})" if reason not in (None, "Error") else ""
    return f"the task ended with exit code {ended.get('exitCode')}{named}"


def _is_control(one: str) -> bool:
    return one < " " or "\x7f" <= one <= "\x9f"


def _clean(message: str) -> str:
    """Drop what nobody can read: broken surrogates, and controls, which terminals would obey.

    In the annotation that keeps the words each control would take six characters: a task that
    prints nothing else must not fill it.
    """
    readable = "".join(one for one in message if one in "\n\t" or not _is_control(one))
    cleaned = readable.encode("utf-8", "replace")
    return cleaned[:RESULT_BYTES].decode("utf-8", "ignore").strip()
