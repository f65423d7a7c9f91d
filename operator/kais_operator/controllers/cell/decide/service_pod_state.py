"""Read the state of a service cell's pod, with the messages of the kubelet.

The status of a Deployment shows when a pod is ready, but not why it is not. Pods that are being
deleted do not count. A pod that stays on a lost node is reported, but never force-deleted: only its
node knows whether it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from kais import conditions
from kais.conditions import ConditionType, DesiredCondition
from kais.reasons import Reason
from kais_operator.controllers.cell.decide import base_pod_spec
from kais_operator.planning import pod_diagnosis
from kais_operator.planning.plan import Body

_MESSAGE_LIMIT = 300  # characters of a container's termination message in a condition; arbitrary
_MIN_DELAY = timedelta(seconds=1)


@dataclass(frozen=True)
class PodState:
    """The state of a service cell's pods.

    Attributes:
        condition: the condition PodReady.
        pod_name: the current pod; None without one.
        requeue_after: delay until a pod that is being deleted counts as stuck, which no watch event
            reports.
    """

    condition: DesiredCondition
    pod_name: str | None = None
    requeue_after: timedelta | None = None


def read_pod_state(
    deployment: Body | None, pods_seen: Sequence[Body], *, replicas: int, now: datetime
) -> PodState:
    """Read the state of a service cell's pods. Reads no clock."""
    going = [pod for pod in pods_seen if pod["metadata"].get("deletionTimestamp")]
    stuck = [pod for pod in going if pod_diagnosis.is_stuck(pod, now)]
    delays = [pod_diagnosis.stuck_from(pod) - now for pod in going if pod not in stuck]
    requeue_after = max(min(delays), _MIN_DELAY) if delays else None
    condition, at_work = _pod_condition(deployment, pods_seen, stuck, replicas=replicas)
    lost = [pod_diagnosis.stuck_message(pod) for pod in stuck]
    message = "; ".join([*([condition.message] if condition.message else []), *lost])
    name = at_work["metadata"]["name"] if at_work is not None else None
    return PodState(replace(condition, message=message), name, requeue_after)


def _pod_condition(
    deployment: Body | None, pods_seen: Sequence[Body], stuck: Sequence[Body], *, replicas: int
) -> tuple[DesiredCondition, Body | None]:
    if replicas == 0:
        condition = conditions.true(
            ConditionType.POD_READY, Reason.SCALED_DOWN, "no pod is needed now"
        )
        return condition, None
    pod = _newest(pods_seen)
    if pod is None or not _is_rolled_out(deployment):
        return _no_pod_condition(deployment, stuck), None
    ready = _condition(pod, "Ready")
    if ready.get("status") == "True":
        message = f"{pod_diagnosis.name_of(pod)} is ready"
        return conditions.true(ConditionType.POD_READY, Reason.POD_RUNNING, message), pod
    reason, message = _not_ready_reason(pod, ready)
    return conditions.false(ConditionType.POD_READY, reason, message), pod


def _newest(pods_seen: Sequence[Body]) -> Body | None:
    """Find the current pod; one that ended was evicted or lost, and is replaced."""
    live = [
        pod
        for pod in pods_seen
        if not pod["metadata"].get("deletionTimestamp")
        and (pod.get("status") or {}).get("phase") not in ("Failed", "Succeeded")
    ]
    return max(live, key=_made_order, default=None)


def _made_order(pod: Body) -> tuple[str, str]:
    return pod["metadata"].get("creationTimestamp", ""), pod["metadata"]["name"]


def _is_rolled_out(deployment: Body | None) -> bool:
    """Whether the pods come from the current template."""
    if deployment is None:
        return False
    status = deployment.get("status") or {}
    is_observed = status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    return bool(is_observed and status.get("updatedReplicas", 0) >= 1)


def _no_pod_condition(deployment: Body | None, stuck: Sequence[Body]) -> DesiredCondition:
    refusal = _refusal(deployment)
    if refusal is not None:
        return conditions.false(ConditionType.POD_READY, Reason.POD_NOT_CREATED, refusal)
    if stuck:
        return conditions.false(ConditionType.POD_READY, Reason.POD_STUCK, "")
    return conditions.false(
        ConditionType.POD_READY, Reason.WAITING_FOR_PODS, "the pod is being started"
    )


def _refusal(deployment: Body | None) -> str | None:
    failure = _condition(deployment or {}, "ReplicaFailure")
    if failure.get("status") != "True":
        return None
    return str(failure.get("message") or "the cluster refuses to create the pod")


def _not_ready_reason(pod: Body, ready: Mapping[str, Any]) -> tuple[Reason, str]:
    name = pod_diagnosis.name_of(pod)
    container = _container(pod)
    state = container.get("state") or {}
    diagnosis = pod_diagnosis.why_waiting(pod, state)
    if diagnosis is not None:
        reason, message = diagnosis
        return reason, f"{name}: {message}{_termination_suffix(container.get('lastState') or {})}"
    if "terminated" in state:
        return Reason.POD_FAILED, f"{name}{_termination_suffix(state)}"
    if "running" in state:
        probe_message = ready.get("message") or "its readiness probe has not passed yet"
        return Reason.WAITING_FOR_PODS, f"{name} is running but not ready: {probe_message}"
    return Reason.WAITING_FOR_PODS, "the pod is being started"


def _termination_suffix(state: Mapping[str, Any]) -> str:
    ended = state.get("terminated")
    if ended is None:
        return ""
    reason_suffix = (
        "" if ended.get("reason") in (None, "Error", "Completed") else f" ({ended['reason']})"
    )
    message = (ended.get("message") or "").strip()[-_MESSAGE_LIMIT:]
    return (
        f"; it ended with exit code {ended.get('exitCode')}"
        f"{reason_suffix}{f': {message}' if message else ''}{pod_diagnosis.root_hint(message)}"
    )


def _container(pod: Body) -> Body:
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if status["name"] == base_pod_spec.SERVICE:
            return dict(status)
    return {}


def _condition(body: Body, type_: str) -> Mapping[str, Any]:
    for condition in (body.get("status") or {}).get("conditions") or ():
        if condition["type"] == type_:
            return dict(condition)
    return {}
