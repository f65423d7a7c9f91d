"""Scale the cell templates of a formation that has no owner."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kais import names
from kais.resources.blueprint_revision import BlueprintRevision
from kais_cli import errors

if TYPE_CHECKING:
    from kais.resources.formation import Formation
    from kais_cli.ports import Body
    from kais_cli.session import Session

_OWNER = "BlueprintInstance"


def refuse_or_count(session: Session, found: Formation, cell: str) -> int:
    """Return the current number of cells of a template.

    Raises:
        Refused: An instance owns the formation and would revert the number (the message names
            the parameter that sets it), or there is no such template.
    """
    owner = next((o.name for o in found.metadata.owner_references if o.kind == _OWNER), None)
    if owner is not None:
        raise errors.Refused(_owned(session, found, cell, owner))
    known = {template.name: template.replicas for template in found.spec.cells}
    if cell not in known:
        listed = ", ".join(known)
        raise errors.Refused(f"{found.ref} has no cell template {cell}; it has {listed}")
    return known[cell]


def scale(session: Session, found: Formation, cell: str, *, replicas: int, dry_run: bool) -> Body:
    """Set the number; the API server rejects it if the formation has changed meanwhile."""
    index = [template.name for template in found.spec.cells].index(cell)
    path = f"/spec/cells/{index}"
    operations: list[Body] = [
        {"op": "test", "path": f"{path}/name", "value": cell},
        {"op": "add", "path": f"{path}/replicas", "value": replicas},
    ]
    return session.cluster.patch(
        "Formation", session.namespace, found.metadata.name, operations, dry_run=dry_run
    )


def _owned(session: Session, found: Formation, cell: str, owner: str) -> str:
    words = (
        f"{found.ref} belongs to {_OWNER}/{session.namespace}/{owner}, which would set the number"
        " back; nothing was changed"
    )
    parameters = _parameters(session, owner, cell)
    if parameters is None:
        return words
    if not parameters:
        return f"{words}. Its Blueprint fixes the replicas of {cell}: edit the Blueprint"
    values = json.dumps({"spec": {"parameters": dict.fromkeys(parameters, "VALUE")}})
    which = " and ".join(parameters)
    return (
        f"{words}. The replicas of {cell} come from the parameter {which}: kubectl patch bpi"
        f" {owner} -n {session.namespace} --type merge -p '{values}'"
    )


def _parameters(session: Session, owner: str, cell: str) -> list[str] | None:
    """Return the parameters that set a template's replicas; None if they are unknown."""
    instance = session.cluster.get(_OWNER, session.namespace, owner) or {}
    blueprint = instance.get("spec", {}).get("blueprintRef", {}).get("name")
    number = instance.get("status", {}).get("revisionInUse")
    if not blueprint or not number:
        return None
    body = session.cluster.get(
        "BlueprintRevision", session.namespace, names.revision_name(blueprint, number)
    )
    if body is None:
        return None
    spec = BlueprintRevision.from_dict(body).spec
    known = {parameter.name for parameter in spec.parameters}
    from kais import template_compiling  # noqa: PLC0415 (loads jinja2, only for this message)

    deciding = _deciding(spec.formation, cell)
    taken = {name for leaf in deciding for name in template_compiling.names_in(leaf)}
    return sorted(taken & known)


def _deciding(formation: Any, cell: str) -> list[str]:
    """Return the expressions that set the number of cells of a template."""
    from kais import template_compiling  # noqa: PLC0415 (loads jinja2, only for this message)

    found = []
    for template in formation.get("cells", []):
        name = template.get("name", "") if isinstance(template, dict) else ""
        if name != cell and "{{" not in name:  # a templated name may become this one
            continue
        loop = template.get("$for")
        if isinstance(loop, dict) and isinstance(loop.get("in"), str):
            found.append(template_compiling.braced(loop["in"]))
        replicas = template.get("replicas")
        found += [replicas] if isinstance(replicas, str) else []
    return found
