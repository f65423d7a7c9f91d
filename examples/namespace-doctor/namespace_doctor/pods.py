"""Reads from the JSON of pods and events what a diagnosis needs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

Body = Mapping[str, Any]
_STEADY = timedelta(
    seconds=60
)  # a crash loop backs off for 10 s and more, so 60 s of running count
_LONGEST = 200  # characters of somebody else's words in one explanation: a sentence or two


@dataclass(frozen=True)
class Container:
    """One container of a pod, from the pod's status; absent states are empty.

    `is_healthy` is stricter than `is_ready`: between two crashes a container is ready for a moment.
    """

    name: str
    image: str
    is_ready: bool
    is_healthy: bool
    restarts: int
    waiting: Body
    terminated: Body
    last_terminated: Body
    memory_limit: str

    @property
    def ended(self) -> Body:
        """The latest termination, current or before the restart; empty if there is none."""
        return self.terminated or self.last_terminated


def name(pod: Body) -> str:
    """Return the name of a pod."""
    return str(pod["metadata"]["name"])


def workload(pod: Body) -> str:
    """Return the name of the pod's workload, which outlives the pod; else that of the pod."""
    metadata = pod["metadata"]
    template_hash = metadata.get("labels", {}).get("pod-template-hash")
    for owner in metadata.get("ownerReferences", []):
        if owner.get("controller"):
            return str(owner["name"]).removesuffix(f"-{template_hash}")
    return name(pod)


def containers(pod: Body, now: datetime) -> Iterator[Container]:
    """Yield the containers in the order in which they start, init containers first."""
    spec, status = pod.get("spec", {}), pod.get("status", {})
    for specs, statuses in (
        ("initContainers", "initContainerStatuses"),
        ("containers", "containerStatuses"),
    ):
        declared = {c["name"]: c for c in spec.get(specs, [])}
        for container_status in status.get(statuses, []):
            yield _container(container_status, declared.get(container_status["name"], {}), now)


def _container(status: Body, declared: Body, now: datetime) -> Container:
    state = status.get("state", {})
    return Container(
        name=status["name"],
        image=declared.get("image") or status.get("image", ""),
        is_ready=bool(status.get("ready")),
        is_healthy=bool(status.get("ready")) and _is_steady(status, now),
        restarts=int(status.get("restartCount", 0)),
        waiting=state.get("waiting") or {},
        terminated=state.get("terminated") or {},
        last_terminated=status.get("lastState", {}).get("terminated") or {},
        memory_limit=declared.get("resources", {}).get("limits", {}).get("memory", ""),
    )


def _is_steady(status: Body, now: datetime) -> bool:
    started = status.get("state", {}).get("running", {}).get("startedAt")
    if not started or not status.get("restartCount"):
        return True
    return now - datetime.fromisoformat(started) >= _STEADY


def events_of(pod: Body, events: Sequence[Body]) -> list[Body]:
    """Return the events about this pod, by its UID, oldest first."""
    uid = pod["metadata"].get("uid")
    pod_events = [e for e in events if e.get("involvedObject", {}).get("uid") == uid]
    return sorted(pod_events, key=_moment)


def _moment(event: Body) -> str:
    moment = event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp")
    return str(moment or "")


def plain(text: str, pod: Body) -> str:
    """Remove the pod's address and name from a message; return one line of bounded length."""
    address = pod.get("status", {}).get("podIP")
    if address:
        text = text.replace(str(address), "<pod>")
    text = re.sub(r"_[a-z0-9-]+\([0-9a-f-]{36}\)", "", text)  # the kubelet's name_namespace(uid)
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
