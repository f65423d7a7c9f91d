"""The ConfigMap that a formation's pods mount: which cells may talk, as a rule and as lists.

The lists are left out when they would not fit. If the API server refused the ConfigMap, the
operator would repeat the write forever, and no cell would have peers.
"""

from __future__ import annotations

from kais import labels, names, topology, topology_files
from kais.resources.formation import Formation
from kais.topology import RouteRule, Routing
from kais_operator.planning import children
from kais_operator.planning.children import Parent
from kais_operator.planning.plan import Body

MAP_BYTES = 1_048_576
"""The API server's limit for all values of a ConfigMap."""


def map_body(formation: Formation, parent: Parent) -> Body:
    """Build the ConfigMap; a topology with problems allows no connection."""
    routing = _routing(formation)
    rule = topology_files.rule_text(routing, decay_minutes=_decay_minutes(formation))
    lists = topology_files.lists_text(routing, limit=MAP_BYTES - len(rule))
    data = {labels.TOPOLOGY_KEY: rule}
    if lists is not None:
        data[labels.ROUTES_KEY] = lists
    return children.child_body(
        parent,
        api_version="v1",
        kind="ConfigMap",
        name=names.topology_map_name(formation.metadata.name),
        content={"data": data},
    )


def _decay_minutes(formation: Formation) -> float | None:
    """Return when marks of the blackboard expire; None if the cells have no common board."""
    board = formation.spec.topology.blackboard
    return board.decay_minutes if board is not None and formation.spec.workspace else None


def what_is_left_out(body: Body) -> str:
    """Describe which file a ConfigMap lacks; empty when it is complete."""
    if labels.ROUTES_KEY in body["data"]:
        return ""
    return (
        f"; {labels.ROUTES_KEY} is left out, as its lists would exceed {MAP_BYTES} bytes:"
        f" cells read {labels.TOPOLOGY_KEY}"
    )


def _routing(formation: Formation) -> Routing:
    routing = topology.routing_of(formation.spec)
    if topology.problems(formation.spec):
        return Routing(RouteRule.ROUTES, routing.cells)
    return routing
