"""The pods of an attempt: which of them decides, and why it ended or never started.

Everything here is read from what the kubelet reports in the pods, and from the Job controller's
Events about pods that it cannot create.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kais import names
from kais.resources.mission import MAX_ATTEMPTS, Mission
from kais_operator.planning import children, pod_diagnosis
from kais_operator.planning.plan import Body

_NOT_CREATED = "FailedCreate"
"""Reason of the Job controller's Event when the API server refuses a pod."""
_CREATED = "SuccessfulCreate"
"""Reason of its Event about a pod that it created."""
NEVER_SEEN = "ContainerStatusUnknown"
"""Reason that the kubelet reports for a container it never started, or lost, when a pod ends."""
_JOB_NAME = "batch.kubernetes.io/job-name"
"""Label that the API server adds to the pod template of a Job."""
_SUFFIX_LENGTH = 5
"""Random characters at the end of a name that the API server generates."""
_ENDED = ("Succeeded", "Failed")
"""The final phases of a pod."""


@dataclass(frozen=True)
class Refusal:
    """Why the API server refuses the pod of a Job.

    `since` is when it refused the first one after the latest pod; None if no Event has a time.
    """

    message: str
    since: str | None = None


def pods_of(job: Body, pods_seen: Sequence[Body]) -> list[Body]:
    """Return the pods of a Job, oldest first."""
    uid = job["metadata"]["uid"]
    pods = [pod for pod in pods_seen if children.controller_uid(pod) == uid]
    return sorted(pods, key=lambda pod: pod["metadata"].get("creationTimestamp", ""))


def of_mission(mission: Mission, pods_seen: Sequence[Body]) -> list[Body]:
    """Return the pods of the Jobs of a mission, or of an earlier one of its name.

    The Job may be gone, and its pod without an owner. Anyone may create a pod with the label.
    """
    if not pods_seen:  # as for most missions, which are observed often: no names are computed
        return []
    job_names = {
        names.job_name(mission.metadata.name, number + 1) for number in range(MAX_ATTEMPTS)
    }
    return [pod for pod in pods_seen if _job_name(pod) in job_names]


def _job_name(pod: Body) -> str | None:
    """Return the name of the Job that controls a pod, or that created it if nothing controls it."""
    metadata = pod["metadata"]
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner["name"]) if owner["kind"] == "Job" else None
    pod_labels = metadata.get("labels") or {}
    return str(pod_labels[_JOB_NAME]) if _JOB_NAME in pod_labels else None


def refusal(job: Body, events: Sequence[Body]) -> Refusal | None:
    """Return the Job controller's latest message on why it cannot create a pod, if there is one.

    Each try has a new pod name. The random suffix is removed, so that the message stays the same.
    The API server cuts off what precedes the suffix, so that the name has 63 characters at most.
    """
    refused = [
        event for event in events if event.get("reason") == _NOT_CREATED and event.get("message")
    ]
    if not refused:
        return None
    prefix = f"{job['metadata']['name']}-"[: names.LIMIT - _SUFFIX_LENGTH]
    pod_name = rf"\b{re.escape(prefix)}[a-z0-9]{{{_SUFFIX_LENGTH}}}\b"
    message = re.sub(pod_name, f"{prefix}…", refused[-1]["message"])
    created = [event for event in events if event.get("reason") == _CREATED]
    created_at = max(map(_last_seen, created), default="")
    since = [
        max(_first_seen(event), created_at)
        for event in refused
        if _first_seen(event) and _last_seen(event) >= created_at
    ]
    return Refusal(message, min(since, default=None))


def _first_seen(event: Body) -> str:
    return str(event.get("firstTimestamp") or event.get("eventTime") or "")


def _last_seen(event: Body) -> str:
    series = event.get("series") or {}
    times = (event.get("lastTimestamp"), series.get("lastObservedTime"), event.get("eventTime"))
    return max(time or "" for time in times)


def container_state(pod: Body, name: str) -> Mapping[str, Any]:
    """Return the state of one container of a pod; empty until the kubelet reports it."""
    return _container_status(pod, name).get("state") or {}


def has_started(pod: Body, name: str) -> bool:
    """Whether a container of a pod runs or has run, as far as the kubelet reports it.

    If the kubelet ends a pod and has no container, it reports an unknown end. It then also reports
    that the container used to run, if that was so.
    """
    state = container_state(pod, name)
    ended = state.get("terminated") or {}
    if ended.get("reason") == NEVER_SEEN:
        return bool((_container_status(pod, name).get("lastState") or {}).get("terminated"))
    return bool(ended) or "running" in state


def has_ended(pod: Body) -> bool:
    """Whether a pod is in its final phase, in which no container reports any more."""
    return (pod.get("status") or {}).get("phase") in _ENDED


def _container_status(pod: Body, name: str) -> Mapping[str, Any]:
    status = pod.get("status") or {}
    for key in ("initContainerStatuses", "containerStatuses"):
        for container_status in status.get(key) or ():
            if container_status["name"] == name:
                return dict(container_status)
    return {}


def deciding_pod(pods_seen: Sequence[Body], phase: str | None) -> Body | None:
    """Return the pod whose end decides the attempt: the latest in `phase`, else the latest.

    Disrupted pods do not count, because they are replaced.
    """
    undisturbed = [pod for pod in pods_seen if not _was_disrupted(pod)]
    for pod in reversed(undisturbed):
        if phase is None or (pod.get("status") or {}).get("phase") == phase:
            return pod
    return undisturbed[-1] if undisturbed else None


def latest_pod(pods_seen: Sequence[Body]) -> Body | None:
    """Return the latest pod that was not disrupted; None when there is none."""
    return deciding_pod(pods_seen, None)


def not_replaced(pods_seen: Sequence[Body]) -> list[Body]:
    """Return the pods without those that a disruption has ended.

    The Job controller replaces such a pod, and may keep it until the new one has ended.
    """
    return [pod for pod in pods_seen if not _is_to_be_replaced(pod)]


def disruption_ended_at(pods_seen: Sequence[Body]) -> str | None:
    """Return when a disruption ended the latest pod that is to be replaced; None without one."""
    disrupted = [pod for pod in pods_seen if _is_to_be_replaced(pod)]
    return max(_ended_at(disrupted[-1]), default=None) if disrupted else None


def _ended_at(pod: Body) -> list[str]:
    """Return the times that show when a pod ended; the latest of them is nearest to it."""
    status = pod.get("status") or {}
    containers = status.get("containerStatuses") or ()
    ends = [(each.get("state") or {}).get("terminated") or {} for each in containers]
    times = [
        pod["metadata"].get("creationTimestamp"),
        *(end.get("finishedAt") for end in ends),
        *(each.get("lastTransitionTime") for each in status.get("conditions") or ()),
    ]
    return [time for time in times if time]


def _is_to_be_replaced(pod: Body) -> bool:
    return (pod.get("status") or {}).get("phase") == "Failed" and _was_disrupted(pod)


def _was_disrupted(pod: Body) -> bool:
    return any(
        condition["type"] == "DisruptionTarget" and condition["status"] == "True"
        for condition in (pod.get("status") or {}).get("conditions") or ()
    )


def was_ended_by_node(pod: Body | None) -> bool:
    """Whether the kubelet ended the whole pod itself, for example by an eviction."""
    return bool(((pod or {}).get("status") or {}).get("reason"))


def exceeded_deadline(pod: Body) -> bool:
    """Whether the kubelet ended the pod at the pod's deadline."""
    return (pod.get("status") or {}).get("reason") == "DeadlineExceeded"


def not_started_message(pod: Body | None, task: Mapping[str, Any]) -> str:
    """Describe a task that did not start in time, and what its pod waited for."""
    diagnosis = pod_diagnosis.why_waiting(pod, task) if pod is not None else None
    suffix = f": {diagnosis[1]}" if diagnosis is not None else ""
    return f"the task was not started before the time for all attempts ran out{suffix}"


def has_pod_limit(job: Body) -> bool:
    """Whether the pod of a Job has a deadline, which is earlier than that of the Job.

    If a Job with such a pod exceeds its own deadline, no pod was on a node at that time.
    """
    template = ((job.get("spec") or {}).get("template") or {}).get("spec") or {}
    return "activeDeadlineSeconds" in template
