"""The environment of a cell's containers: declared variables, and those that kais adds.

Kubernetes expands `$(NAME)` in commands, arguments and variables, unless the `$` is doubled. Text
of users must arrive unchanged, so every `$` in it is doubled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from kais import labels
from kais.resources.cell import Cell
from kais.resources.cell_template import CellTemplateSpec, EnvVar
from kais_operator.controllers.cell.decide import process_limits
from kais_operator.controllers.cell.decide.cell_identity import CellIdentity
from kais_operator.planning import memo
from kais_operator.planning.plan import Body

TOKEN_FOLDER = "/var/run/secrets/kais"  # noqa: S105 - a folder, no secret
TOKEN_NAME = "token"  # noqa: S105 - a file name, no secret
TOPOLOGY_FOLDER = "/etc/kais/topology"
CELL_SPEC_FOLDER = "/etc/kais/cell"

_RESERVED_PREFIXES = ("KAIS_", "KNOWLEDGE_")
_RESERVED = frozenset({labels.ENV_CELL_NAME, labels.ENV_CELL_NAMESPACE, labels.ENV_CELL_SPEC})


def literal(text: str) -> str:
    """Escape a user's text, so that Kubernetes does not expand it."""
    return text.replace("$", "$$")


def is_reserved(name: str) -> bool:
    """Whether a variable belongs to kais; a declared variable of this name is left out."""
    return name in _RESERVED or name.startswith(_RESERVED_PREFIXES)


def variables(
    cell: Cell, identity: CellIdentity, *, knowledge_url: str, extra: Mapping[str, str]
) -> list[Body]:
    """Return the variables of a container: those declared, the cell's identity, and `extra`."""
    declared = cell.spec.container.env if cell.spec.container else []
    reserved = {**_identity_variables(cell, identity, knowledge_url), **extra}
    users = [
        _declared_variable(variable)
        for variable in declared
        if not is_reserved(variable.name) and variable.name not in reserved
    ]
    return [*users, *({"name": name, "value": literal(value)} for name, value in reserved.items())]


def _identity_variables(cell: Cell, identity: CellIdentity, knowledge_url: str) -> dict[str, str]:
    scope = str(identity.scope)
    return {
        labels.ENV_CELL_NAME: identity.short_name,
        labels.ENV_CELL_NAMESPACE: cell.metadata.namespace,
        **_spec_or_its_file(cell),
        labels.ENV_KNOWLEDGE_SERVICE_URL: knowledge_url,
        labels.ENV_KNOWLEDGE_SCOPE: scope,
        labels.ENV_KNOWLEDGE_GRAPH_ID: scope,
        labels.ENV_KNOWLEDGE_TOKEN_FILE: f"{TOKEN_FOLDER}/{TOKEN_NAME}",
        labels.ENV_FORMATION: cell.spec.formation_ref or "",
        labels.ENV_PEERS_FILE: f"{TOPOLOGY_FOLDER}/{labels.ROUTES_KEY}",
    }


def spec_text(cell: Cell) -> str:
    """Serialise a cell's spec for its pods."""
    return _text_of(cell.spec)


@memo.by_identity(capacity=64)
def _text_of(spec: CellTemplateSpec) -> str:
    return json.dumps(spec.to_dict(), ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def has_spec_file(cell: Cell) -> bool:
    """Whether a cell's spec is too large for CELL_SPEC, so that its pods read it from a file."""
    return not process_limits.fits(labels.ENV_CELL_SPEC, spec_text(cell))


def _spec_or_its_file(cell: Cell) -> dict[str, str]:
    if has_spec_file(cell):
        return {labels.ENV_CELL_SPEC_FILE: f"{CELL_SPEC_FOLDER}/{labels.CELL_SPEC_KEY}"}
    return {labels.ENV_CELL_SPEC: spec_text(cell)}


def _declared_variable(variable: EnvVar) -> Body:
    if variable.value_from is not None:
        return {"name": variable.name, "valueFrom": variable.value_from.to_dict()}
    return {"name": variable.name, "value": literal(variable.value or "")}
