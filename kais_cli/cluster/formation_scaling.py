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


def current_replicas(session: Session, formation: Formation, cell: str) -> int:
    """Return the current number of cells of a template.

    Raises:
        Refused: An instance owns the formation and would revert the number (the message names
            the parameter that sets it), or there is no such template.
    """
    owner = next((o.name for o in formation.metadata.owner_references if o.kind == _OWNER), None)
    if owner is not None:
        raise errors.Refused(_owned_formation_message(session, formation, cell, owner))
    replicas_by_template = {template.name: template.replicas for template in formation.spec.cells}
    if cell not in replicas_by_template:
        listed = ", ".join(replicas_by_template)
        raise errors.Refused(f"{formation.ref} has no cell template {cell}; it has {listed}")
    return replicas_by_template[cell]


def scale(
    session: Session, formation: Formation, cell: str, *, replicas: int, dry_run: bool
) -> Body:
    """Set the number; the API server rejects it if the formation has changed meanwhile."""
    index = [template.name for template in formation.spec.cells].index(cell)
    path = f"/spec/cells/{index}"
    operations: list[Body] = [
        {"op": "test", "path": f"{path}/name", "value": cell},
        {"op": "add", "path": f"{path}/replicas", "value": replicas},
    ]
    return session.cluster.patch(
        "Formation", session.namespace, formation.metadata.name, operations, dry_run=dry_run
    )


def _owned_formation_message(session: Session, formation: Formation, cell: str, owner: str) -> str:
    message = (
        f"{formation.ref} belongs to {_OWNER}/{session.namespace}/{owner}, which would set the"
        " number back; nothing was changed"
    )
    parameters = _replica_parameters(session, owner, cell)
    if parameters is None:
        return message
    if not parameters:
        return f"{message}. Its Blueprint fixes the replicas of {cell}: edit the Blueprint"
    values = json.dumps({"spec": {"parameters": dict.fromkeys(parameters, "VALUE")}})
    parameter_names = " and ".join(parameters)
    return (
        f"{message}. The replicas of {cell} come from the parameter {parameter_names}:"
        f" kubectl patch bpi {owner} -n {session.namespace} --type merge -p '{values}'"
    )


def _replica_parameters(session: Session, owner: str, cell: str) -> list[str] | None:
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
    declared = {parameter.name for parameter in spec.parameters}
    from kais.templates import compiler  # noqa: PLC0415 (loads jinja2, only for this message)

    expressions = _replica_expressions(spec.formation, cell)
    referenced = {name for leaf in expressions for name in compiler.names_in(leaf)}
    return sorted(referenced & declared)


def _replica_expressions(formation: Any, cell: str) -> list[str]:
    """Return the expressions that set the number of cells of a template."""
    from kais.templates import compiler  # noqa: PLC0415 (loads jinja2, only for this message)

    expressions = []
    for template in formation.get("cells", []):
        name = template.get("name", "") if isinstance(template, dict) else ""
        if name != cell and "{{" not in name:  # a templated name may become this one
            continue
        loop = template.get("$for")
        if isinstance(loop, dict) and isinstance(loop.get("in"), str):
            expressions.append(compiler.braced(loop["in"]))
        replicas = template.get("replicas")
        expressions += [replicas] if isinstance(replicas, str) else []
    return expressions
