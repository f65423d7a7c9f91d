"""The tools of MCP servers as a mind sees them, independent of how a server is reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kais import mcp_servers
from kais.mcp_servers import McpServer, ServerReport, ServerState


@dataclass(frozen=True)
class ServerTool:
    """A tool of a server: the name that the mind uses, and the server's description and schema."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass
class ServerReports:
    """The latest report about each server, from all tasks of this process."""

    reports: dict[str, ServerReport] = field(default_factory=dict)

    def save(self, server: McpServer, state: ServerState, message: str) -> None:
        """Store the state of a server, as a connection showed it."""
        text = message[: mcp_servers.MESSAGE_CHARACTERS]
        self.reports[server.name] = ServerReport(server.url, state, text)


class ServerTools(Protocol):
    """The servers of one task; they are connected when their tools are first listed."""

    async def tools(self) -> Sequence[ServerTool]:
        """Return the tools of all servers; they stay the same until a server is connected again."""

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool, and return its result in a frame.

        Raises:
            ToolError: There is no result; the message is for the mind.
        """

    async def close(self) -> None:
        """End the connections."""

    def has_server_of(self, name: str) -> bool:
        """Whether a name is that of a tool of a declared server, connected or not."""
