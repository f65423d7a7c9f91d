"""The spec of a cell as its pods get it: its size limits, and the ConfigMap of a large one."""

from __future__ import annotations

from kais import labels, names
from kais.reasons import Reason
from kais.resources.cell import Cell
from kais_operator.controllers.cell.decide import base_pod_spec, environment, process_limits
from kais_operator.controllers.cell.decide.cell_identity import CellIdentity
from kais_operator.planning import children
from kais_operator.planning.children import ChildDecision, Ownership, Parent
from kais_operator.planning.plan import Body

MAP_BYTES = 1_048_576
"""The API server's limit for all values of a ConfigMap."""


def decide_map(
    cell: Cell, identity: CellIdentity, parent: Parent, *, live: Body | None, knowledge_url: str
) -> ChildDecision | None:
    """Choose the write for the ConfigMap of a large spec; None if the spec is in the environment.

    A decision with a reason means that no pod of the cell could start.
    """
    problem = _problem(cell, identity, knowledge_url=knowledge_url)
    if problem is not None:
        return ChildDecision(Ownership.MISSING, reason=Reason.TOO_LARGE, message=problem)
    if not environment.has_spec_file(cell):
        return None
    return children.decide_child(_map_body(cell, parent), live, parent)


def _problem(cell: Cell, identity: CellIdentity, *, knowledge_url: str) -> str | None:
    variables = environment.variables(cell, identity, knowledge_url=knowledge_url, extra={})
    container = base_pod_spec.container(
        cell, base_pod_spec.SERVICE, variables=variables, mounted=()
    )
    problem = process_limits.problem([container])
    size = len(environment.spec_text(cell).encode())
    if problem is None and size > MAP_BYTES:
        return f"spec takes {size} bytes as JSON, and the maximum is {MAP_BYTES}: shorten it"
    return problem


def _map_body(cell: Cell, parent: Parent) -> Body:
    return children.child_body(
        parent,
        api_version="v1",
        kind="ConfigMap",
        name=names.cell_spec_map_name(cell.metadata.name),
        labelled=base_pod_spec.cell_labels(cell),
        content={"data": {labels.CELL_SPEC_KEY: environment.spec_text(cell)}},
    )
