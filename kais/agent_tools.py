"""The tools that a mind may list in `spec.tools`: the names, and why a list is invalid."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from kais import mcp_servers
from kais.resources.cell_template import Tool


class AgentTool(StrEnum):
    """The name of a tool that `spec.tools` may list."""

    RECALL = "recall"
    REMEMBER = "remember"
    CORRECT = "correct"
    READ_FILE = "read_file"
    WRITE_FILE = "write_file"
    LIST_FILES = "list_files"
    ASK_PEER = "ask_peer"
    BLACKBOARD = "blackboard"


_SUPPORTED_NAMES = tuple(tool.value for tool in AgentTool)
NOT_YET_SUPPORTED = frozenset({"shell", "spawn_cell"})
"""Planned tools: their names are valid, but a cell that lists one does not start."""
KNOWLEDGE_TOOLS = frozenset({AgentTool.RECALL, AgentTool.REMEMBER, AgentTool.CORRECT})
"""Tools that need a knowledge service."""
REPEATABLE_TOOLS = KNOWLEDGE_TOOLS | {
    AgentTool.READ_FILE,
    AgentTool.LIST_FILES,
    AgentTool.ASK_PEER,
    AgentTool.BLACKBOARD,
}
"""Tools that are safe to repeat after a crash: they only read, or their writes have a call id."""
RECONNECT = "reconnect_"
"""Prefix of the tools that reconnect an MCP server; the name of the server follows."""


def is_tool_name(name: str) -> bool:
    """Whether `spec.tools` may contain a name, even if the tool is not yet supported."""
    is_of_mcp_server = name == mcp_servers.MCP or mcp_servers.is_server_tool(name)
    return is_of_mcp_server or name in _SUPPORTED_NAMES or name in NOT_YET_SUPPORTED


def is_repeatable(name: str) -> bool:
    """Whether a call of a tool is safe to repeat when its result is unknown.

    Calls of tools of MCP servers are not, even if a server declares them idempotent.
    """
    return name in REPEATABLE_TOOLS or name.startswith(RECONNECT)


def problem(names: Iterable[str]) -> str | None:
    """Return why a mind cannot have these tools; None if it can."""
    names = list(dict.fromkeys(names))
    unsupported = [name for name in names if name in NOT_YET_SUPPORTED]
    unknown = [name for name in names if not is_tool_name(name)]
    problems = []
    if unknown:
        supported = ", ".join((*_SUPPORTED_NAMES, mcp_servers.MCP))
        problems.append(f"spec.tools: unknown: {', '.join(unknown)}; known are {supported}")
    if unsupported:
        problems.append(f"spec.tools: not yet supported: {', '.join(unsupported)}; remove them")
    return "; ".join(problems) or None


def server_problem(tools: Iterable[Tool]) -> str | None:
    """Return why a mind cannot have the MCP servers among these tools; None if it can."""
    try:
        mcp_servers.parse(tools)
    except mcp_servers.InvalidServers as exc:
        return str(exc)
    return None


def has_approvals(tools: Iterable[Tool]) -> bool:
    """Whether calls of one of these tools wait for a person."""
    return any(tool.approval is not None and tool.approval.required for tool in tools)
