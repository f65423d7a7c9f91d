"""Merge the pod fields of a cell into what kais gives its pods.

Fields of the Cell take precedence over those of the installation, and both over the defaults of
kais. What belongs to kais stays: its volumes, mounts, variables, labels and container names, which
`kais.forbidden_pod_fields` protects.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kais import labels, pod_defaults
from kais.errors import InvalidResource
from kais.pod_defaults import merge
from kais.resources.cell import Cell
from kais.resources.pod_template import ContainerFields, RuntimeFields
from kais_operator.planning.plan import Body

CONTAINER_SECURITY: Mapping[str, Any] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
"""The default security context of every container in a pod of a cell."""
_MERGED = ("securityContext", "resources", "volumeMounts")
"""Fields of a container that are merged with those of kais instead of replacing them."""
_POD_MERGED = ("initContainers", "securityContext", "tolerations", "volumes")
"""Fields of a pod that are merged with those of kais instead of replacing them."""
_AFTER_START = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
"""Fields that an init container cannot have."""


NO_DEFAULTS: Mapping[str, Any] = {}


def with_defaults(cell: Cell, defaults: Mapping[str, Any]) -> Cell:
    """Return a cell with the pod fields of the installation that it does not set itself."""
    if not defaults:
        return cell
    return cell.model_copy(update={"spec": pod_defaults.with_defaults(cell.spec, defaults)})


def defaults_annotation(defaults: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotation that records the defaults of a pod template; none without defaults."""
    if not defaults:
        return {}
    return {labels.RENDERED_DEFAULTS: json.dumps(defaults, sort_keys=True, separators=(",", ":"))}


def read_defaults(annotations: Mapping[str, str]) -> Mapping[str, Any] | None:
    """Return the recorded defaults, empty if there were none; None if they are invalid."""
    text = annotations.get(labels.RENDERED_DEFAULTS)
    if text is None:
        return NO_DEFAULTS
    try:
        tree = json.loads(text)
        return pod_defaults.read_defaults(tree) if isinstance(tree, dict) else None
    except (ValueError, InvalidResource):
        return None


def pod_fields(cell: Cell) -> Body:
    """Return the fields of the pods' spec that a cell declares."""
    template = cell.spec.pod_template
    return template.spec.to_dict() if template is not None and template.spec is not None else {}


def template_metadata(cell: Cell, labelled: Mapping[str, str]) -> Body:
    """Return the metadata of a pod template, in which the labels of kais take precedence."""
    template = cell.spec.pod_template
    declared = template.metadata if template is not None else None
    metadata: Body = {"labels": {**((declared and declared.labels) or {}), **labelled}}
    if declared is not None and declared.annotations:
        metadata["annotations"] = dict(declared.annotations)
    return metadata


def with_pod_fields(spec: Body, cell: Cell) -> Body:
    """Add the fields of a cell to the spec of its pods."""
    declared = pod_fields(cell)
    if not declared:
        return spec
    added = {key: value for key, value in declared.items() if key not in _POD_MERGED}
    if "securityContext" in declared:
        added["securityContext"] = merge(spec["securityContext"], declared["securityContext"])
    for key in ("tolerations", "volumes"):
        if declared.get(key):
            added[key] = [*spec[key], *declared[key]]
    return {**spec, **added}


def init_containers(cell: Cell) -> list[Body]:
    """Return the init containers and sidecars of a cell, with the security defaults of kais."""
    return [
        {
            **container,
            "securityContext": merge(CONTAINER_SECURITY, container.get("securityContext") or {}),
        }
        for container in pod_fields(cell).get("initContainers") or ()
    ]


def with_container_fields(body: Body, cell: Cell) -> Body:
    """Add the fields of a cell's container or mind to the container that runs it."""
    fields = container_fields(cell)
    added = {key: value for key, value in fields.items() if key not in _MERGED}
    if fields.get("volumeMounts"):
        added["volumeMounts"] = [*body["volumeMounts"], *fields["volumeMounts"]]
    if "securityContext" in fields:
        added["securityContext"] = merge(body["securityContext"], fields["securityContext"])
    if "resources" in fields:
        added["resources"] = _resources(body["resources"], cell, fields["resources"])
    return {**body, **added}


def container_fields(cell: Cell) -> Body:
    """Return the fields of Kubernetes that a cell declares for its container."""
    declared: RuntimeFields | None = cell.spec.container or cell.spec.mind
    if declared is None:
        return {}
    model = ContainerFields if isinstance(declared, ContainerFields) else RuntimeFields
    keys = {field.alias for field in model.model_fields.values()}
    return {key: value for key, value in declared.to_dict().items() if key in keys}


def _resources(defaults: Mapping[str, Any], cell: Cell, declared: Mapping[str, Any]) -> Body:
    """Merge resources by name: a resource that the container declares gets no default of kais.

    Otherwise a request of 2 CPUs would exceed the default limit. `spec.resources` still limits it.
    """
    limited = cell.spec.resources
    stated = {
        "cpu": limited is not None and limited.cpu_limit is not None,
        "memory": limited is not None and limited.memory_limit is not None,
    }
    limits, requests = declared.get("limits") or {}, declared.get("requests") or {}
    resource_names = {*limits, *requests}
    merged: Body = {key: value for key, value in declared.items() if key == "claims"}
    default_limits = {
        key: value
        for key, value in defaults["limits"].items()
        if key not in resource_names or (stated[key] and key not in limits)
    }
    default_requests = {
        key: value for key, value in defaults["requests"].items() if key not in resource_names
    }
    for key, values in (
        ("requests", {**default_requests, **requests}),
        ("limits", {**default_limits, **limits}),
    ):
        if values:
            merged[key] = {name: str(amount) for name, amount in values.items()}
    return merged


def without_running_fields(body: Body, *others: str) -> Body:
    """Return a container without the fields that only a running container may have."""
    dropped: Sequence[str] = (*_AFTER_START, *others)
    return {key: value for key, value in body.items() if key not in dropped}
