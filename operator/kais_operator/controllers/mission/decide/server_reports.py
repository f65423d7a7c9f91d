"""Keep what runs report about the MCP servers of a cell in an annotation of the Cell.

The cell itself may write nothing in the cluster. The Cell's own reconcile makes conditions of the
annotation, so an annotation that someone forged shows a wrong condition and does nothing else.
"""

from __future__ import annotations

from kais import labels, mcp_servers
from kais.mcp_servers import Reports
from kais.resources.cell import Cell
from kais_operator.controllers.mission.decide import entrypoint, reviewer_cells
from kais_operator.controllers.mission.decide.mission_observed import MissionObserved
from kais_operator.planning.agent_tasks import AgentReply
from kais_operator.planning.plan import Action, ObjectRef, PatchMetadata


def write_actions(observed: MissionObserved) -> tuple[Action, ...]:
    """Choose the writes of reports that the Cells do not have yet."""
    if observed.mission.is_deleting:
        return ()  # a deletion waits for no write on another object
    last = observed.history.latest
    entry = entrypoint.entrypoint_cell(observed.mission, observed.team)
    reviewer = reviewer_cells.find(observed.mission, observed.team)
    reports = _of_reply(observed.reply) or (last.servers if last is not None else None)
    patches = (
        _patch(entry, reports) if isinstance(entry, Cell) else None,
        _patch(reviewer, _of_reply(observed.review_reply)),
    )
    return tuple(patch for patch in patches if patch is not None)


def _of_reply(reply: AgentReply | None) -> Reports | None:
    return reply.task.servers if reply is not None and reply.task is not None else None


def _patch(cell: Cell | None, reports: Reports | None) -> PatchMetadata | None:
    """Return the write of new reports; those of servers that are not declared are left out."""
    if cell is None or not reports or cell.is_deleting:
        return None
    try:
        servers = mcp_servers.parse(cell.spec.tools)
    except mcp_servers.InvalidServers:
        return None
    metadata = cell.metadata
    recorded_reports = mcp_servers.parse_annotation(metadata.annotations.get(labels.MCP_SERVERS))
    merged = mcp_servers.current(servers, {**recorded_reports, **reports})
    if merged == mcp_servers.current(servers, recorded_reports):
        return None
    return PatchMetadata(
        ObjectRef(cell.kind, metadata.namespace, metadata.name),
        resource_version=metadata.resource_version,
        annotations={labels.MCP_SERVERS: mcp_servers.dump_annotation(merged)},
    )
