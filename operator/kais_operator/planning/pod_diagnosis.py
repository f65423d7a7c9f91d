"""Diagnose why a pod does not work, with the messages of the kubelet or the scheduler."""

from __future__ import annotations

import re
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


_MISSING_SECRET = re.compile(r'secret "([^"]+)" not found')


def _advice(pod: Body, message: str, *, is_pull: bool) -> str:
    """Return what to do about a message of the kubelet; empty if it cannot be known."""
    missing = _MISSING_SECRET.search(message)
    if missing is not None:
        keys = [f" --from-literal={key}=…" for key in _keys_of_secret(pod, missing[1])]
        namespace = pod["metadata"].get("namespace", "")
        command = f"kubectl create secret generic {missing[1]} -n {namespace}{''.join(keys)}"
        return f"; create it with `{command}`, and the container starts"
    if is_pull:
        return "; push the image to a registry that the nodes read, or `kais cluster load` it"
    return ""


def _keys_of_secret(pod: Body, secret: str) -> list[str]:
    """Return the keys of a Secret that the environment of a pod's containers reads, each once."""
    spec = pod.get("spec") or {}
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    variables = [entry for container in containers for entry in container.get("env") or ()]
    references = [(entry.get("valueFrom") or {}).get("secretKeyRef") or {} for entry in variables]
    return list(dict.fromkeys(ref["key"] for ref in references if ref.get("name") == secret))


def name_of(pod: Body) -> str:
    """Return a pod's reference for messages."""
    return f"Pod/{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"


def stuck_from(pod: Body) -> datetime:
    """Return the time from which a pod that is being deleted counts as stuck."""
    return datetime.fromisoformat(pod["metadata"]["deletionTimestamp"]) + STUCK_AFTER


def is_stuck(pod: Body, now: datetime) -> bool:
    """Whether a pod still exists so long after its deletion that its node must be lost."""
    return "deletionTimestamp" in pod["metadata"] and stuck_from(pod) <= now


def stuck_message(pod: Body) -> str:
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
        return _explained(pod, waiting)
    diagnosis = _diagnosis_of_others(pod)
    if diagnosis is not None:
        return diagnosis
    for condition in (pod.get("status") or {}).get("conditions") or ():
        is_refused = condition["type"] == "PodScheduled" and condition["status"] == "False"
        if is_refused and condition.get("reason") == "Unschedulable":
            return Reason.UNSCHEDULABLE, condition.get("message") or "no node can run the pod"
    return None


def _explained(pod: Body, waiting: Mapping[str, Any]) -> tuple[Reason, str]:
    """Return the reason and the message of the kubelet, with what to do about it."""
    reason = waiting["reason"]
    kind = Reason.IMAGE_PULL_FAILED if reason in _PULLING else Reason.POD_FAILED
    message = f"{reason}: {waiting.get('message') or 'the kubelet gives no details'}"
    advice = _advice(pod, message, is_pull=kind is Reason.IMAGE_PULL_FAILED) or root_hint(message)
    return kind, f"{message}{advice}"


def root_hint(message: str) -> str:
    """Return what to do about an image that needs root, if a message looks like one; else empty."""
    return ROOT_HINT if any(sign in message.lower() for sign in _SIGNS_OF_ROOT) else ""


ROOT_HINT = (
    "; cells do not run as root: if the image needs it, set runAsUser: 0 and runAsNonRoot: false "
    "in container.securityContext, where the Pod Security level of the namespace allows it"
)
_SIGNS_OF_ROOT = (
    "runasnonroot",
    "non-root policy",
    "permission denied",
    "operation not permitted",
    "read-only file system",
)


def failed_init_container(pod: Body, *, excluding: str) -> str | None:
    """Describe the init container whose failure ended a pod; None without one."""
    for status in (pod.get("status") or {}).get("initContainerStatuses") or ():
        if status["name"] == excluding:
            continue
        ended = (status.get("state") or {}).get("terminated") or {}
        if ended.get("exitCode"):
            message = (ended.get("message") or "").strip()[-_MESSAGE_CHARACTERS:]
            text = f"init container {status['name']} ended with exit code {ended['exitCode']}"
            return f"{text}: {message}{root_hint(message)}" if message else text
    return None


_MESSAGE_CHARACTERS = 300  # of a termination message; arbitrary


def _diagnosis_of_others(pod: Body) -> tuple[Reason, str] | None:
    """Return why an init container or sidecar keeps the others from starting."""
    for status in (pod.get("status") or {}).get("initContainerStatuses") or ():
        waiting = (status.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason", "")
        if reason not in USUAL_WAITS:
            kind, message = _explained(pod, waiting)
            return kind, f"container {status['name']}: {message}"
    return None
