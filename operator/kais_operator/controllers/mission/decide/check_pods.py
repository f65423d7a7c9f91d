"""Build the containers of a Task attempt's checks, and read their states.

The task becomes an init container. Each check that runs something is a container of the same pod,
with the same volumes and the cell's image: a check sees what the task left behind, and nothing of
the operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kais.resources.cell import Cell
from kais.resources.check import Check, CheckType
from kais.resources.mission import Mission
from kais_operator.controllers.cell.decide import (
    base_pod_spec,
    environment,
    pod_field_merge,
    volumes,
)
from kais_operator.controllers.cell.decide.volumes import Volume
from kais_operator.controllers.mission.decide import (
    attempt_state,
    check_results,
    termination_message,
)
from kais_operator.planning import container_results, pod_diagnosis, quantities
from kais_operator.planning.container_results import Process
from kais_operator.planning.plan import Body

_OF_THE_IMAGE = (
    "args",
    "ports",
    "env",
    "envFrom",
    "imagePullPolicy",
    "volumeDevices",
    "workingDir",
)
"""Fields of a cell's container that mean nothing to the image that checks for files."""
FILE_CHECK = "kais-file-check"
"""The program of the check image that checks whether files exist."""


@dataclass(frozen=True)
class CheckImages:
    """Images of checks, besides that of the cell: the program for files, and the agent runtime."""

    files: str = ""
    agent: str = ""


_NOT_STARTED = frozenset({"StartError", "ContainerCannotRun", "CreateContainerError"})
_NODE_LOST = frozenset({"ContainerStatusUnknown"})


def has_containers(mission: Mission) -> bool:
    """Whether the pod of an attempt has containers for checks."""
    return any(not check_results.is_response(check) for check in mission.spec.completion.checks)


def name_of(mission: Mission, check: Check) -> str:
    """Return the name of a check's container, by the index of the check.

    The name of a check need not be a valid name of a container.
    """
    return _container_name(
        [check.name for check in mission.spec.completion.checks].index(check.name)
    )


def _container_name(index: int) -> str:
    return f"check-{index}"


def containers(
    checks: Sequence[Check],
    cell: Cell,
    *,
    variables: Sequence[Body],
    mounted: Sequence[Volume],
    images: CheckImages,
) -> list[Body]:
    """Build the containers of a mission's checks."""
    bodies = []
    for index, check in enumerate(checks):
        name = _container_name(index)
        if check_results.is_response(check):
            continue
        if check.type is CheckType.FILE_EXISTS:
            bodies.append(_file_check(check, cell, name=name, mounted=mounted, image=images.files))
            continue
        body = base_pod_spec.container(
            cell, name, variables=variables, mounted=mounted, agent_image=images.agent
        )
        body = pod_field_merge.without_running_fields(body, "args", "ports", "volumeDevices")
        command = [environment.literal(text) for text in check_results.argv_of(check)]
        bodies.append(
            {**body, "command": command, "resources": _small(body["resources"].get("limits") or {})}
        )
    return bodies


def _file_check(
    check: Check, cell: Cell, *, name: str, mounted: Sequence[Volume], image: str
) -> Body:
    body = base_pod_spec.container(cell, name, variables=(), mounted=())
    body = pod_field_merge.without_running_fields(body, *_OF_THE_IMAGE)
    read_only = [
        {**volume.mount, "readOnly": True}
        for volume in mounted
        if volume.mount["mountPath"].startswith(volumes.WORKSPACE_FOLDER)
    ]
    paths = [environment.literal(path) for path in check.paths or ()]
    return {
        **body,
        "image": image,
        "command": [FILE_CHECK, "--", *paths],
        "volumeMounts": read_only,
        "resources": _small({"cpu": "500m", "memory": "64Mi"}),
    }


def _small(limits: Mapping[str, str]) -> Body:
    """Return small requests, so that a pod needs no more room for its checks."""
    declared_requests = {name: limits[name] for name in _CHECK_REQUESTS if name in limits}
    requests = {
        name: quantities.at_most(declared_requests.get(name, minimum), minimum)
        for name, minimum in _CHECK_REQUESTS.items()
    }
    return {"requests": requests, **({"limits": declared_requests} if declared_requests else {})}


_CHECK_REQUESTS = {"cpu": "10m", "memory": "32Mi"}
"""The requests of a check, which gets no other resources of its cell, such as a GPU."""


def process_of(state: Mapping[str, Any]) -> Process | None:
    """Read the state of a check's container; None until the kubelet has handled it."""
    ended, running = state.get("terminated"), state.get("running")
    if ended is not None:
        return _terminated_process(ended)
    if running is not None:
        return Process(began_at=attempt_state.parse_time(running.get("startedAt")))
    waiting = state.get("waiting") or {}
    if waiting.get("reason", "") in pod_diagnosis.USUAL_WAITS:
        return None
    message = f"{waiting.get('reason')}: {waiting.get('message') or 'the kubelet gives no details'}"
    return Process(waiting_message=message)


def _terminated_process(ended: Mapping[str, Any]) -> Process:
    message = termination_message.clean(ended.get("message") or "")
    if ended.get("reason") in _NOT_STARTED:
        return Process(
            failure=f"it could not be started: {message}",
            is_program_missing=container_results.is_program_missing(message),
        )
    if ended.get("reason") in _NODE_LOST:
        return Process(failure="its container was lost, so it is unknown how it ended")
    started_at = attempt_state.parse_time(ended.get("startedAt"))
    ended_at = attempt_state.parse_time(ended.get("finishedAt"))
    if ended.get("reason") == "OOMKilled":
        message = f"{message}\nit used more memory than its limit and was killed (OOMKilled)"
    return Process(started_at or ended_at, ended_at, ended.get("exitCode"), message)
