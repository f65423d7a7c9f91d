"""One condition for each MCP server of a cell, from what its runs reported.

They do not affect the summary: a cell works without a server, and its mission reports the result.
"""

from __future__ import annotations

from kais import conditions, labels, mcp_servers
from kais.conditions import DesiredCondition
from kais.mcp_servers import ServerState
from kais.reasons import Reason
from kais.resources.cell import Cell

TYPE_PREFIX = "mcp.kais.io/"
"""The name of the server follows; a type with such a prefix belongs to no common kind of fact."""
_REASONS = {
    ServerState.CONNECTED: Reason.CONNECTED,
    ServerState.UNAVAILABLE: Reason.SERVER_UNAVAILABLE,
    ServerState.REFUSED: Reason.SERVER_REFUSED,
    ServerState.INVALID: Reason.SERVER_INVALID,
}


def server_conditions(cell: Cell) -> list[DesiredCondition]:
    """Return the conditions of the servers, in the order of the spec; none without a mind."""
    if cell.spec.mind is None:
        return []
    try:
        servers = mcp_servers.parse(cell.spec.tools)
    except mcp_servers.InvalidServers:
        return []
    annotation = cell.metadata.annotations.get(labels.MCP_SERVERS)
    reports = mcp_servers.current(servers, mcp_servers.parse_annotation(annotation))
    desired = []
    for server in servers:
        type_, report = f"{TYPE_PREFIX}{server.name}", reports.get(server.name)
        if report is None:
            message = f"no run has used {server.url} yet"
            desired.append(conditions.unknown(type_, Reason.NOT_CONNECTED, message))
            continue
        condition_of_status = (
            conditions.true if report.state is ServerState.CONNECTED else conditions.false
        )
        desired.append(condition_of_status(type_, _REASONS[report.state], report.message))
    return desired
