"""How the pod of a service cell is: from the pods, and in the kubelet's words.

A Deployment's own numbers say when, not why. Pods that are going count for nothing, but one that
stays on a lost node is named: it is never forced away, since only its node knows whether it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from kais import conditions
from kais.conditions import ConditionType, DesiredCondition
from kais.reasons import Reason
from kais_operator.controllers.cell.decide import pod_diagnosis, pods
from kais_operator.planning.plan import Body

_WORDS = 300  # characters of a container's last words in a condition; an arbitrary bound
_LEAST_WAIT = timedelta(seconds=1)


@dataclass(frozen=True)
class ServicePods:
    """What the pods of a service cell come to.

    Attributes:
        said: the condition PodReady.
        pod_name: the pod at work, None while there is none.
        requeue_after: when a pod that is going counts as stuck, which no watch event tells.
    """

    said: DesiredCondition
    pod_name: str | None = None
    requeue_after: timedelta | None = None


def read(
    deployment: Body | None, pods_seen: Sequence[Body], *, replicas: int, now: datetime
) -> ServicePods:
    """Say how the pod of a service cell is. Reads no clock."""
    going = [pod for pod in pods_seen if pod["metadata"].get("deletionTimestamp")]
    stuck = [pod for pod in going if pod_diagnosis.is_stuck(pod, now)]
    waits = [pod_diagnosis.stuck_from(pod) - now for pod in going if pod not in stuck]
    look_again = max(min(waits), _LEAST_WAIT) if waits else None
    said, at_work = _said(deployment, pods_seen, stuck, replicas=replicas)
    lost = [pod_diagnosis.stuck_words(pod) for pod in stuck]
    message = "; ".join([*([said.message] if said.message else []), *lost])
    name = at_work["metadata"]["name"] if at_work is not None else None
    return ServicePods(replace(said, message=message), name, look_again)


def _said(
    deployment: Body | None, pods_seen: Sequence[Body], stuck: Sequence[Body], *, replicas: int
) -> tuple[DesiredCondition, Body | None]:
    if replicas == 0:
        said = conditions.true(ConditionType.POD_READY, Reason.SCALED_DOWN, "no pod is needed now")
        return said, None
    pod = _newest(pods_seen)
    if pod is None or not _is_rolled_out(deployment):
        return _why_none(deployment, stuck), None
    ready = _condition(pod, "Ready")
    if ready.get("status") == "True":
        words = f"{pod_diagnosis.name_of(pod)} is ready"
        return conditions.true(ConditionType.POD_READY, Reason.POD_RUNNING, words), pod
    reason, words = _why_not_ready(pod, ready)
    return conditions.false(ConditionType.POD_READY, reason, words), pod


def _newest(pods_seen: Sequence[Body]) -> Body | None:
    """Find the pod at work; one that ended was evicted or lost, and has a successor."""
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
    """Whether the pods are those of the template that is declared now."""
    if deployment is None:
        return False
    status = deployment.get("status") or {}
    is_seen = status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    return bool(is_seen and status.get("updatedReplicas", 0) >= 1)


def _why_none(deployment: Body | None, stuck: Sequence[Body]) -> DesiredCondition:
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


def _why_not_ready(pod: Body, ready: Mapping[str, Any]) -> tuple[Reason, str]:
    name = pod_diagnosis.name_of(pod)
    container = _container(pod)
    state = container.get("state") or {}
    trouble = pod_diagnosis.why_waiting(pod, state)
    if trouble is not None:
        reason, words = trouble
        return reason, f"{name}: {words}{_last_words(container.get('lastState') or {})}"
    if "terminated" in state:
        return Reason.POD_FAILED, f"{name}{_last_words(state)}"
    if "running" in state:
        why = ready.get("message") or "its readiness probe has not passed yet"
        return Reason.WAITING_FOR_PODS, f"{name} is running but not ready: {why}"
    return Reason.WAITING_FOR_PODS, "the pod is being started"


def _last_words(state: Mapping[str, Any]) -> str:
    ended = state.get("terminated")
    if ended is None:
        return ""
    why = "" if ended.get("reason") in (None, "Error", "Completed") else f" ({ended['reason']})"
    said = (ended.get("message") or "").strip()[-_WORDS:]
    return f"; it ended with exit code {ended.get('exitCode')}{why}{f': {said}' if said else ''}"


def _container(pod: Body) -> Body:
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if status["name"] == pods.SERVICE:
            return dict(status)
    return {}


def _condition(body: Body, type_: str) -> Mapping[str, Any]:
    for condition in (body.get("status") or {}).get("conditions") or ():
        if condition["type"] == type_:
            return dict(condition)
    return {}
