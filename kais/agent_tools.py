"""The tools of minds: which names this version knows, and which it runs."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from kais.resources.cell_template import CellMode, Tool


class AgentTool(StrEnum):
    """A tool that a mind may be given, by its name in `spec.tools`."""

    RECALL = "recall"
    REMEMBER = "remember"
    CORRECT = "correct"
    READ_FILE = "read_file"
    WRITE_FILE = "write_file"
    LIST_FILES = "list_files"
    ASK_PEER = "ask_peer"


NOT_YET_SUPPORTED = frozenset({"blackboard", "mcp", "shell", "spawn_cell"})
"""Names of tools that are planned; a cell that has one does not start."""
KNOWLEDGE_TOOLS = frozenset({AgentTool.RECALL, AgentTool.REMEMBER, AgentTool.CORRECT})
"""Tools that need a knowledge service."""
REPEATABLE_TOOLS = frozenset(
    {*KNOWLEDGE_TOOLS, AgentTool.READ_FILE, AgentTool.LIST_FILES, AgentTool.ASK_PEER}
)
"""Tools that may run again when nobody knows whether they did: they read, or have a call id."""


def problem(names: Iterable[str]) -> str | None:
    """Say why a mind cannot have these tools; None if it can."""
    names = list(dict.fromkeys(names))
    unsupported = [name for name in names if name in NOT_YET_SUPPORTED]
    unknown = [name for name in names if name not in NOT_YET_SUPPORTED and name not in _NAMES]
    problems = []
    if unknown:
        supported = ", ".join(_NAMES)
        problems.append(f"spec.tools: unknown: {', '.join(unknown)}; known are {supported}")
    if unsupported:
        problems.append(f"spec.tools: not yet supported: {', '.join(unsupported)}; remove them")
    return "; ".join(problems) or None


def mode_problem(names: Iterable[str], mode: CellMode) -> str | None:
    """Say why a mind cannot have these tools in a mode; None if it can."""
    if mode is CellMode.TASK and AgentTool.ASK_PEER in names:
        return "spec.tools: ask_peer needs mode: Service; remove it, or change spec.mode"
    return None


def approval_problem(tools: Iterable[Tool], mode: CellMode) -> str | None:
    """Say why calls of these tools cannot wait for an approval; None if they can."""
    named = [tool.name for tool in tools if tool.approval is not None and tool.approval.required]
    if named and mode is CellMode.TASK:
        return (
            f"spec.tools: approval of {', '.join(named)} is not yet supported in mode: Task; "
            "remove it, or change spec.mode"
        )
    return None


_NAMES = tuple(tool.value for tool in AgentTool)
