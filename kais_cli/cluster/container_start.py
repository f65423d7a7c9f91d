"""Whether the log of a container that has none yet can be awaited."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kais_cli.ports import Body

_USUAL_WAITS = frozenset({"", "ContainerCreating", "PodInitializing", "CrashLoopBackOff"})
"""What a container waits for that usually ends by itself; an init container may run again."""


def obstacle(pod: Body | None, container: str) -> str | None:
    """Return why it is no use to wait for the log of a container; None while it may start.

    A container that has started has its log already. `pod` is None if it does not exist.
    """
    if pod is None:
        return "the pod was deleted"
    status = pod.get("status", {})
    if status.get("phase") in ("Succeeded", "Failed"):
        return f"the pod has ended{_cause(status)}"
    init_states = dict(_states(status, "initContainerStatuses"))
    states = init_states | dict(_states(status, "containerStatuses"))
    if states.get(container, {}).keys() & {"running", "terminated"}:
        return "the container has started"
    for name in (*init_states, container):
        waiting = states.get(name, {}).get("waiting") or {}
        if waiting.get("reason", "") not in _USUAL_WAITS:
            return f"{name} does not start: {_reason_and_message(waiting)}"
    return None


@dataclass(frozen=True)
class Wait:
    """What a container waits for; `is_unusual` if that does not end by itself within seconds."""

    reason: str
    message: str
    is_unusual: bool


def wait(pod: Body, container: str) -> Wait | None:
    """Return what a container without an obstacle waits for, as far as the pod shows it."""
    status = pod.get("status", {})
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            reason = condition.get("reason") or "Unschedulable"
            message = _reason_and_message({**condition, "reason": reason})
            return Wait(reason, message, is_unusual=True)
    init_states = dict(_states(status, "initContainerStatuses"))
    states = init_states | dict(_states(status, "containerStatuses"))
    for name in (*init_states, container):
        waiting = states.get(name, {}).get("waiting") or {}
        reason = waiting.get("reason", "")
        if reason not in ("", "PodInitializing"):
            message = f"{name} is in {_reason_and_message(waiting)}"
            return Wait(reason, message, is_unusual=reason == "CrashLoopBackOff")
    return None


def why_not_started(pod: Body, container: str) -> str | None:
    """Return why a container has not started; None if it has, or the pod does not show it."""
    status = pod.get("status", {})
    states = dict(_states(status, "initContainerStatuses"))
    states |= dict(_states(status, "containerStatuses"))
    if states.get(container, {}).keys() & {"running", "terminated"}:
        return None
    reason = obstacle(pod, container)
    waiting = wait(pod, container) if reason is None else None
    return reason if waiting is None else waiting.message


def _cause(status: Body) -> str:
    """Return why a pod has ended: its reason, or the init container that failed."""
    if status.get("reason"):
        return f": {_reason_and_message(status)}"
    for name, state in _states(status, "initContainerStatuses"):
        exit_code = (state.get("terminated") or {}).get("exitCode")
        if exit_code:
            return f": {name} failed with exit code {exit_code}"
    return ""


def _states(status: Body, field: str) -> Iterator[tuple[str, Body]]:
    for entry in status.get(field) or ():
        yield entry["name"], entry.get("state") or {}


def _reason_and_message(record: Body) -> str:
    return ": ".join(filter(None, (record["reason"], record.get("message"))))
