"""Diagnose why a pod does not work, with the messages of the kubelet or the scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from kais.reasons import Reason
from kais_operator.planning.plan import Body

STUCK_AFTER = timedelta(seconds=60)
"""A pod that still exists this long after its grace period is on a lost node."""

USUAL_WAITS = frozenset({"ContainerCreating", "PodInitializing", ""})
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


def name_of(pod: Body) -> str:
    """Return a pod's reference for messages."""
    return f"Pod/{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"


def stuck_from(pod: Body) -> datetime:
    """Return the time from which a pod that is being deleted counts as stuck."""
    return datetime.fromisoformat(pod["metadata"]["deletionTimestamp"]) + STUCK_AFTER


def is_stuck(pod: Body, now: datetime) -> bool:
    """Whether a pod has outlived its deletion for so long that its node must be lost."""
    return "deletionTimestamp" in pod["metadata"] and stuck_from(pod) <= now


def stuck_words(pod: Body) -> str:
    """Describe a pod that stays on a lost node."""
    node = (pod.get("spec") or {}).get("nodeName", "its node")
    return f"{name_of(pod)} stays terminating on {node}, which does not answer"


def why_waiting(pod: Body, state: Mapping[str, Any]) -> tuple[Reason, str] | None:
    """Return why a container in this `state` does not start; None if it only needs more time.

    The message is that of the kubelet or, without a node, of the scheduler.
    """
    waiting = state.get("waiting") or {}
    reason = waiting.get("reason", "")
    if reason not in USUAL_WAITS:
        kind = Reason.IMAGE_PULL_FAILED if reason in _PULLING else Reason.POD_FAILED
        return kind, f"{reason}: {waiting.get('message') or 'the kubelet gives no details'}"
    for condition in (pod.get("status") or {}).get("conditions") or ():
        is_refused = condition["type"] == "PodScheduled" and condition["status"] == "False"
        if is_refused and condition.get("reason") == "Unschedulable":
            return Reason.UNSCHEDULABLE, condition.get("message") or "no node can run the pod"
    return None
