"""The manifest of a new BlueprintInstance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kais.resources import base
from kais.resources.blueprint_instance import BlueprintInstance
from kais_cli import errors

if TYPE_CHECKING:
    from kais_cli.ports import Body
    from kais_cli.session import Session

KIND = "BlueprintInstance"


def create(session: Session, body: Body, *, dry_run: bool) -> Body:
    """Create an instance.

    Raises:
        Refused: The API server rejected it. If the name is taken, the message describes the
            instance that has it.
    """
    try:
        return session.cluster.create(body, dry_run=dry_run)
    except errors.Refused as exc:
        metadata = body["metadata"]
        present = session.cluster.get(KIND, metadata["namespace"], metadata["name"])
        if present is None:
            raise
        raise errors.Refused(_name_is_taken(BlueprintInstance.from_dict(present))) from exc


def _name_is_taken(instance: BlueprintInstance) -> str:
    metadata, status = instance.metadata, instance.status
    since = metadata.creation_timestamp
    created = f", created {since:%Y-%m-%d %H:%M} UTC" if since else ""
    state = f"outcome {status.outcome}" if status.outcome else "without an outcome yet"
    return (
        f"{instance.ref} exists already{created}, {state}; `kais instance delete {metadata.name}"
        f" -n {metadata.namespace}` deletes it and keeps its facts, or leave --name out"
    )


def manifest(
    namespace: str,
    blueprint: str,
    name: str,
    parameter_values: Mapping[str, Any],
    *,
    revision: int | None = None,
) -> dict[str, Any]:
    """Return an instance of a blueprint; `revision` pins it."""
    reference: dict[str, Any] = {"name": blueprint}
    if revision is not None:
        reference["revision"] = revision
    return {
        "apiVersion": base.API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"blueprintRef": reference, "parameters": dict(parameter_values)},
    }
