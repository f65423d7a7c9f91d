"""The pod of a cell and the Job of an attempt.

Kubernetes expands `$(NAME)` in commands, arguments and variables, and `$$` is how it is told not
to. What users wrote shall arrive letter for letter, so every `$` of theirs is doubled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kais import labels, names
from kais.resources.cell import Cell
from kais.resources.workload import Container, EnvVar
from kais_operator.decide import children
from kais_operator.decide.children import Parent
from kais_operator.decide.placing import Identity
from kais_operator.decide.plan import Body

TASK = "task"
"""Name of the container that does an attempt's work."""
DEFAULT_USER = 65532
TOKEN_FOLDER = "/var/run/secrets/kais"  # noqa: S105 - a folder, no secret
TOKEN_NAME = "token"  # noqa: S105 - a file name, no secret
TOKEN_SECONDS = 3600
KNOWLEDGE_FOLDER = "/etc/kais/knowledge"
TOPOLOGY_FOLDER = "/etc/kais/topology"
LOST_NODE_SECONDS = 30
"""How long a pod stays on a node that does not answer before it is replaced."""

_RESERVED_PREFIXES = ("KAIS_", "KNOWLEDGE_")
_RESERVED = frozenset({labels.ENV_CELL_NAME, labels.ENV_CELL_NAMESPACE, labels.ENV_CELL_SPEC})


@dataclass(frozen=True)
class Work:
    """What a task's attempt is told, besides who it is.

    `labelled` are labels that the mission passes on to its Jobs and their pods.
    """

    mission: str
    run_id: str
    attempt: int
    objective: str
    message: str = ""
    feedback: str = ""
    labelled: Mapping[str, str] = field(default_factory=dict)


def literal(text: str) -> str:
    """Protect a user's text from expansion by Kubernetes."""
    return text.replace("$", "$$")


def is_reserved(name: str) -> bool:
    """Whether a variable belongs to kais, so that a cell's own of that name is left out."""
    return name in _RESERVED or name.startswith(_RESERVED_PREFIXES)


def attempt_job(
    parent: Parent, cell: Cell, who: Identity, *, work: Work, knowledge_url: str, seconds: int
) -> Body:
    """Make the Job of one attempt; it may run for `seconds` in all.

    The pod waits for its knowledge map, which needs the Job's UID and so comes after it. A
    disruption does not count as a try; the pod may then start a second time.
    """
    job = names.job_name(parent.name, work.attempt)
    carried = {**cell_labels(cell), **work.labelled}
    template_labels = {**carried, **parent.label()}
    body = children.child_body(
        parent,
        api_version="batch/v1",
        kind="Job",
        name=job,
        labelled=carried,
        content={
            "spec": {
                "backoffLimit": 0,
                "podReplacementPolicy": "Failed",
                "podFailurePolicy": {
                    "rules": [
                        {
                            "action": "Ignore",
                            "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                        }
                    ]
                },
                "activeDeadlineSeconds": max(1, seconds),
                "template": {
                    "metadata": {"labels": template_labels},
                    "spec": _pod_spec(cell, who, job=job, work=work, knowledge_url=knowledge_url),
                },
            }
        },
    )
    body["metadata"]["annotations"] = {labels.ATTEMPT: str(work.attempt)}
    return body


def cell_labels(cell: Cell) -> dict[str, str]:
    """Give the labels that everything of a cell carries."""
    kept = (labels.FORMATION, labels.CELL_TEMPLATE, labels.BLUEPRINT, labels.REVISION)
    carried = {key: cell.metadata.labels[key] for key in kept if key in cell.metadata.labels}
    if labels.INSTANCE in cell.metadata.labels:
        carried[labels.INSTANCE] = cell.metadata.labels[labels.INSTANCE]
    return {
        **carried,
        labels.MANAGED_BY: labels.MANAGER,
        labels.CELL: names.label_value(cell.metadata.name),
        labels.ROLE: labels.ROLE_CELL,
    }


def _pod_spec(cell: Cell, who: Identity, *, job: str, work: Work, knowledge_url: str) -> Body:
    spec = cell.spec
    user = (spec.container.run_as_user if spec.container else None) or DEFAULT_USER
    volumes = _volumes(cell, who, job=job)
    return {
        "restartPolicy": "Never",
        "serviceAccountName": who.account,
        "automountServiceAccountToken": spec.api_access,
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
                "key": f"node.kubernetes.io/{trouble}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": LOST_NODE_SECONDS,
            }
            for trouble in ("not-ready", "unreachable")
        ],
        "containers": [_container(cell, who, work=work, knowledge_url=knowledge_url)],
        "volumes": [volume for volume, _ in volumes],
    }


def _container(cell: Cell, who: Identity, *, work: Work, knowledge_url: str) -> Body:
    container = cell.spec.container or Container(image="")
    body: Body = {
        "name": TASK,
        "image": container.image,
        "env": _environment(cell, who, work=work, knowledge_url=knowledge_url),
        "resources": _resources(cell),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [mount for _, mounts in _volumes(cell, who, job="") for mount in mounts],
    }
    if container.command is not None:
        body["command"] = [literal(text) for text in container.command]
    if container.args is not None:
        body["args"] = [literal(text) for text in container.args]
    if container.ports:
        body["ports"] = [
            {"containerPort": p.container_port, "name": p.name} for p in container.ports
        ]
    return body


def _environment(cell: Cell, who: Identity, *, work: Work, knowledge_url: str) -> list[Body]:
    own = cell.spec.container.env if cell.spec.container else []
    scope = str(who.scope)
    told = {
        labels.ENV_CELL_NAME: who.short_name,
        labels.ENV_CELL_NAMESPACE: cell.metadata.namespace,
        labels.ENV_CELL_SPEC: json.dumps(
            cell.spec.to_dict(), ensure_ascii=False, sort_keys=True, separators=(",", ":")
        ),
        labels.ENV_KNOWLEDGE_SERVICE_URL: knowledge_url,
        labels.ENV_KNOWLEDGE_SCOPE: scope,
        labels.ENV_KNOWLEDGE_GRAPH_ID: scope,
        labels.ENV_KNOWLEDGE_TOKEN_FILE: f"{TOKEN_FOLDER}/{TOKEN_NAME}",
        labels.ENV_FORMATION: cell.spec.formation_ref or "",
        labels.ENV_PEERS_FILE: f"{TOPOLOGY_FOLDER}/{labels.ROUTES_KEY}",
        labels.ENV_MISSION: work.mission,
        labels.ENV_RUN_ID: work.run_id,
        labels.ENV_ATTEMPT: str(work.attempt),
        labels.ENV_OBJECTIVE: work.objective,
        labels.ENV_MESSAGE: work.message,
        labels.ENV_FEEDBACK: work.feedback,
        labels.ENV_KNOWLEDGE_FILE: f"{KNOWLEDGE_FOLDER}/{labels.KNOWLEDGE_KEY}",
    }
    users = [_variable(variable) for variable in own if not is_reserved(variable.name)]
    return [*users, *({"name": name, "value": literal(value)} for name, value in told.items())]


def _variable(variable: EnvVar) -> Body:
    if variable.value_from is not None:
        return {"name": variable.name, "valueFrom": variable.value_from.to_dict()}
    return {"name": variable.name, "value": literal(variable.value or "")}


def _resources(cell: Cell) -> Body:
    wanted = cell.spec.resources
    cpu = wanted.cpu_limit if wanted and wanted.cpu_limit is not None else "500m"
    memory = wanted.memory_limit if wanted and wanted.memory_limit is not None else "256Mi"
    return {
        "requests": {"cpu": _at_most(cpu, "100m"), "memory": _at_most(memory, "128Mi")},
        "limits": {"cpu": str(cpu), "memory": str(memory)},
    }


def _at_most(limit: int | str, request: str) -> str:
    """Ask for the usual amount, or for the limit when that is less."""
    return request if amount(limit) >= amount(request) else str(limit)


_FACTORS = {
    "": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "E": 1e18, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50,
    "Ei": 2.0**60,
}  # fmt: skip


def amount(quantity: int | str) -> float:
    """Read a quantity of Kubernetes: `500m` is 0.5, `1Ki` is 1024; the CRD has checked its form."""
    text = str(quantity)
    digits = text.rstrip("numkKMGTPEi")
    suffix = text[len(digits) :]
    return float(digits) * _FACTORS.get(suffix, 1.0)


def _volumes(cell: Cell, who: Identity, *, job: str) -> Sequence[tuple[Body, list[Body]]]:
    """Give each volume with where it is mounted."""
    token = {
        "serviceAccountToken": {
            "audience": labels.AUDIENCE,
            "expirationSeconds": TOKEN_SECONDS,
            "path": TOKEN_NAME,
        }
    }
    volumes: list[tuple[Body, list[Body]]] = [
        (
            {"name": "kais-token", "projected": {"sources": [token]}},
            [_mount("kais-token", TOKEN_FOLDER, read_only=True)],
        ),
        (
            {"name": "kais-knowledge", "configMap": {"name": names.knowledge_map_name(job)}},
            [_mount("kais-knowledge", KNOWLEDGE_FOLDER, read_only=True)],
        ),
        ({"name": "tmp", "emptyDir": {}}, [_mount("tmp", "/tmp")]),  # noqa: S108 - in the pod
        ({"name": "workspace", "emptyDir": {}}, [_mount("workspace", "/workspace/shared")]),
        (
            {"name": "private", "emptyDir": {}},
            [_mount("private", f"/workspace/private/{who.short_name}")],
        ),
    ]
    if cell.spec.formation_ref is not None:
        topology = {
            "name": names.topology_map_name(cell.spec.formation_ref),
            "optional": True,
        }
        volumes.append(
            (
                {"name": "kais-topology", "configMap": topology},
                [_mount("kais-topology", TOPOLOGY_FOLDER, read_only=True)],
            )
        )
    return volumes


def _mount(name: str, path: str, *, read_only: bool = False) -> Body:
    mount: Body = {"name": name, "mountPath": path}
    return {**mount, "readOnly": True} if read_only else mount
