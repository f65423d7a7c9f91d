"""The volumes of a cell's pods with their mounts.

The peers of a cell are in a mounted ConfigMap and never in the environment, because a team that
grows must not restart. If the ConfigMap is missing, nothing is mounted, and the cell has no peers.
"""

from __future__ import annotations

from dataclasses import dataclass

from kais import labels, names
from kais.resources.cell import Cell
from kais_operator.controllers.cell.decide import environment
from kais_operator.controllers.cell.decide.cell_identity import CellIdentity
from kais_operator.controllers.cell.decide.environment import (
    CELL_SPEC_FOLDER,
    TOKEN_FOLDER,
    TOKEN_NAME,
    TOPOLOGY_FOLDER,
)
from kais_operator.planning.plan import Body

TOKEN_SECONDS = 3600
KNOWLEDGE_FOLDER = "/etc/kais/knowledge"
WORKSPACE_FOLDER = "/workspace/"
"""Prefix of every folder in which a task may leave files."""
SHARED_FOLDER = "/workspace/shared"
PRIVATE_FOLDER = "/workspace/private"


@dataclass(frozen=True)
class Volume:
    """One volume of the pod and its mount in a container."""

    source: Body
    mount: Body


def volumes(cell: Cell, identity: CellIdentity, *, knowledge_map: str | None) -> list[Volume]:
    """Return all volumes of a cell's container; `knowledge_map` is the ConfigMap of an attempt."""
    mounted = [volume("kais-token", TOKEN_FOLDER, _token(), is_read_only=True)]
    if knowledge_map is not None:
        recalled: Body = {"configMap": {"name": knowledge_map}}
        mounted.append(volume("kais-knowledge", KNOWLEDGE_FOLDER, recalled, is_read_only=True))
    shared: Body = {"emptyDir": {}}
    if identity.workspace is not None:
        shared = {"persistentVolumeClaim": {"claimName": identity.workspace}}
    mounted += [
        volume("tmp", "/tmp", {"emptyDir": {}}),  # noqa: S108 - in the pod
        volume("workspace", SHARED_FOLDER, shared),
        volume("private", f"{PRIVATE_FOLDER}/{identity.short_name}", {"emptyDir": {}}),
    ]
    if cell.spec.formation_ref is not None:
        name = names.topology_map_name(cell.spec.formation_ref)
        peers: Body = {"configMap": {"name": name, "optional": True}}
        mounted.append(volume("kais-topology", TOPOLOGY_FOLDER, peers, is_read_only=True))
    if environment.has_spec_file(cell):
        spec: Body = {"configMap": {"name": names.cell_spec_map_name(cell.metadata.name)}}
        mounted.append(volume("kais-cell-spec", CELL_SPEC_FOLDER, spec, is_read_only=True))
    return mounted


def _token() -> Body:
    token = {
        "audience": labels.AUDIENCE,
        "expirationSeconds": TOKEN_SECONDS,
        "path": TOKEN_NAME,
    }
    return {"projected": {"sources": [{"serviceAccountToken": token}]}}


def volume(name: str, path: str, source: Body, *, is_read_only: bool = False) -> Volume:
    """Build a volume and its mount at `path`."""
    mount: Body = {"name": name, "mountPath": path}
    return Volume({"name": name, **source}, {**mount, "readOnly": True} if is_read_only else mount)
