"""Why a pod cannot be scheduled, from the scheduler's message. Pure."""

from __future__ import annotations

import re

from namespace_doctor import pods
from namespace_doctor.diagnoses import Cause, Diagnosis
from namespace_doctor.pods import Body

_COUNTS = re.compile(r"^\d+/\d+ nodes are available: ")
_PREEMPTION = re.compile(r"\s*(no new claims to deallocate, )?preemption: .*$", re.DOTALL)
_INSUFFICIENT = re.compile(r"Insufficient ([\w/-]+(?:\.[\w/-]+)*)")


def unschedulable(pod: Body) -> Diagnosis | None:
    """Recognise a pod that the scheduler cannot place."""
    condition = next(
        (
            c
            for c in pod.get("status", {}).get("conditions", [])
            if c.get("type") == "PodScheduled" and c.get("reason") == "Unschedulable"
        ),
        None,
    )
    if condition is None:
        return None
    subject, explanation, advice = _explain(pod, str(condition.get("message", "")))
    return Diagnosis(
        pod=pods.name(pod),
        cause=Cause.UNSCHEDULABLE,
        subject=subject,
        signature=f"FailedScheduling {subject}",
        explanation=explanation,
        advice=advice,
    )


def _explain(pod: Body, message: str) -> tuple[str, str, str]:
    selector = pod.get("spec", {}).get("nodeSelector", {})
    workload = f"workload {pods.workload(pod)}"
    if selector and "node affinity/selector" in message:
        labels = ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
        return (
            f"node selector {labels}",
            "leaves a pod unschedulable: no node has these labels",
            "label a node with it or take the selector out of the pod",
        )
    if scarce := sorted(set(_INSUFFICIENT.findall(message))):
        return (
            workload,
            f"is unschedulable: it asks for more {' and '.join(scarce)} than any node has free",
            "lower the pod's requests or add a node",
        )
    if "untolerated taint" in message:
        return (
            workload,
            "is unschedulable: every node has a taint that it does not tolerate",
            "add the toleration or take the taint off a node",
        )
    reason = pods.plain(_PREEMPTION.sub("", _COUNTS.sub("", message)), pod)
    return (
        workload,
        f"is unschedulable: {reason}",
        "make a node that satisfies this, or ask for less",
    )
