"""Serves one client over standard input and output."""

from __future__ import annotations

from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server


async def serve(server: Server[Any]) -> None:
    """Serve until the client closes standard input; print all other output to stderr."""
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())
