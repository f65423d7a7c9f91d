"""The parts that all pods of a cell share: labels, security context, tolerations and resources.

An attempt's Job and a service cell's Deployment are built from these parts. All of them are part of
pod templates, so a change restarts the teams of everyone who upgrades.
"""

from __future__ import annotations

from collections.abc import Sequence

from kais import labels, names
from kais.resources.cell import Cell
from kais_operator.controllers.cell.decide import pod_field_merge
from kais_operator.controllers.cell.decide.cell_identity import CellIdentity
from kais_operator.controllers.cell.decide.environment import literal
from kais_operator.controllers.cell.decide.volumes import Volume
from kais_operator.planning import quantities
from kais_operator.planning.plan import Body

TASK = "task"
"""Name of the container that runs an attempt's task."""
SERVICE = "cell"
"""Name of the container that keeps running in a service cell."""
DEFAULT_USER = 65532
LOST_NODE_SECONDS = 30
"""How long a pod stays on a node that does not answer before it is replaced."""


def cell_labels(cell: Cell) -> dict[str, str]:
    """Return the labels of all objects that belong to a cell."""
    inherited_keys = (labels.FORMATION, labels.CELL_TEMPLATE, labels.BLUEPRINT, labels.REVISION)
    carried = {
        key: cell.metadata.labels[key] for key in inherited_keys if key in cell.metadata.labels
    }
    if labels.INSTANCE in cell.metadata.labels:
        carried[labels.INSTANCE] = cell.metadata.labels[labels.INSTANCE]
    return {
        **carried,
        labels.MANAGED_BY: labels.MANAGER,
        labels.CELL: names.label_value(cell.metadata.name),
        labels.ROLE: labels.ROLE_CELL,
    }


def pod_spec(
    cell: Cell, identity: CellIdentity, *, containers: Sequence[Body], mounted: Sequence[Volume]
) -> Body:
    """Build the spec of a pod around its containers; the caller adds the restart policy."""
    user = _user(cell)
    spec: Body = {
        "serviceAccountName": identity.account,
        "automountServiceAccountToken": cell.spec.api_access,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": user,
            "runAsGroup": user,
            "fsGroup": user,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{taint}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": LOST_NODE_SECONDS,
            }
            for taint in ("not-ready", "unreachable")
        ],
        "containers": list(containers),
        "volumes": [volume.source for volume in mounted],
    }
    spec = pod_field_merge.with_pod_fields(spec, cell)
    first = pod_field_merge.init_containers(cell)
    return {**spec, "initContainers": first} if first else spec


def _user(cell: Cell) -> int:
    """Return the user ID of the pod, which is also its group unless the cell names one."""
    declared = cell.spec.container.run_as_user if cell.spec.container else None
    of_pod = (pod_field_merge.pod_fields(cell).get("securityContext") or {}).get("runAsUser")
    return next((user for user in (of_pod, declared) if user is not None), DEFAULT_USER)


def container(
    cell: Cell,
    name: str,
    *,
    variables: Sequence[Body],
    mounted: Sequence[Volume],
    agent_image: str = "",
) -> Body:
    """Build the container that runs the cell's image; for a mind, the image of the runtime."""
    declared = cell.spec.container
    body: Body = {
        "name": name,
        "image": declared.image if declared is not None else agent_image,
        "env": list(variables),
        "resources": _resources(cell),
        "securityContext": dict(pod_field_merge.CONTAINER_SECURITY),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [volume.mount for volume in mounted],
    }
    if declared is None:
        return pod_field_merge.with_container_fields(body, cell)
    if declared.command is not None:
        body["command"] = [literal(text) for text in declared.command]
    if declared.args is not None:
        body["args"] = [literal(text) for text in declared.args]
    if declared.ports:
        body["ports"] = [
            {"containerPort": p.container_port, "name": p.name} for p in declared.ports
        ]
    return pod_field_merge.with_container_fields(body, cell)


def _resources(cell: Cell) -> Body:
    declared = cell.spec.resources
    cpu = declared.cpu_limit if declared and declared.cpu_limit is not None else "500m"
    memory = declared.memory_limit if declared and declared.memory_limit is not None else "256Mi"
    return {
        "requests": {
            "cpu": quantities.at_most(cpu, "100m"),
            "memory": quantities.at_most(memory, "128Mi"),
        },
        "limits": {"cpu": str(cpu), "memory": str(memory)},
    }
