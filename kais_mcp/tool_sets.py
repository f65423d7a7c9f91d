"""The sets of tools that a connection can choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kais_mcp import chart_tools, graph_tools, knowledge_tools
from kais_mcp.tools import Tool

DEFAULT = "knowledge"
TOOL_SETS: Mapping[str, Sequence[Tool]] = {
    DEFAULT: knowledge_tools.TOOLS,
    "graph": graph_tools.TOOLS,
    "charts": chart_tools.TOOLS,
}


class UnknownToolSet(Exception):
    """There is no tool set of this name."""

    def __init__(self, name: str, names: Sequence[str]) -> None:
        super().__init__(f"unknown tool set {name!r}; choose from {', '.join(names)}")


def choose(
    names: Sequence[str], tool_sets: Mapping[str, Sequence[Tool]] = TOOL_SETS
) -> dict[str, Tool]:
    """Return the tools of some sets by name.

    Raises:
        UnknownToolSet: there is no set of one of the names.
    """
    for name in names:
        if name not in tool_sets:
            raise UnknownToolSet(name, tuple(tool_sets))
    return {tool.name: tool for name in names for tool in tool_sets[name]}
