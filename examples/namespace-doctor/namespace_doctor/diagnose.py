"""Diagnoses pods from their status and events. Pure: the time is an argument.

The rules are tried in the order of `_RULES`, the more specific ones first: a container that is
killed for its memory, or because its liveness probe fails, also crashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from namespace_doctor import container_causes, image_causes, pods, scheduling_causes
from namespace_doctor.diagnoses import Diagnosis
from namespace_doctor.pods import Body

_RULES = (
    image_causes.image_not_pulled,
    container_causes.out_of_memory,
    container_causes.not_created,
    container_causes.failing_probe,
    container_causes.crash_loop,
)


@dataclass(frozen=True)
class Examination:
    """The result of an examination.

    Attributes:
        examined_pods: how many pods were examined.
        omitted_pods: failing pods beyond the limit, which are only counted.
        diagnoses: one for each failing container, by pod name.
    """

    examined_pods: int
    omitted_pods: int
    diagnoses: tuple[Diagnosis, ...]


def examine(
    all_pods: Sequence[Body], events: Sequence[Body], *, now: datetime, max_pods: int
) -> Examination:
    """Explain the failing pods, at most `max_pods` of them, leaving out the pods of kais itself."""
    examined_pods = sorted((p for p in all_pods if _is_examined(p)), key=pods.name)
    failing = [
        pod_diagnoses
        for pod in examined_pods
        if (pod_diagnoses := diagnose_pod(pod, events, now=now))
    ]
    return Examination(
        examined_pods=len(examined_pods),
        omitted_pods=max(0, len(failing) - max_pods),
        diagnoses=tuple(
            diagnosis for pod_diagnoses in failing[:max_pods] for diagnosis in pod_diagnoses
        ),
    )


def diagnose_pod(pod: Body, events: Sequence[Body], *, now: datetime) -> tuple[Diagnosis, ...]:
    """Return a diagnosis for each failing container of a pod; empty if none fails."""
    if pod.get("status", {}).get("phase") == "Succeeded":
        return ()
    if unplaced := scheduling_causes.unschedulable(pod):
        return (unplaced,)
    pod_events = pods.events_of(pod, events)
    diagnoses = (
        _diagnose_container(pod, container, pod_events) for container in pods.containers(pod, now)
    )
    return tuple(diagnosis for diagnosis in diagnoses if diagnosis)


def _diagnose_container(
    pod: Body, container: pods.Container, events: Sequence[Body]
) -> Diagnosis | None:
    if container.terminated and container.terminated.get("exitCode") == 0:
        return None
    results = (rule(pod, container, events) for rule in _RULES)
    return next((diagnosis for diagnosis in results if diagnosis), None)


def _is_examined(pod: Body) -> bool:
    metadata = pod["metadata"]
    is_managed_by_kais = metadata.get("labels", {}).get("app.kubernetes.io/managed-by") == "kais"
    return not is_managed_by_kais and "deletionTimestamp" not in metadata
