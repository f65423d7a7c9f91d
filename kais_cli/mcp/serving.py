"""Builds the server of `kais mcp` from the chosen tool sets, and runs it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from kais_cli import errors
from kais_cli.graph import mirror
from kais_cli.knowledge import scope_context
from kais_cli.mcp import memory_tools, team_tools
from kais_cli.mcp.host import PersonHost
from kais_cli.mcp.mirrored_knowledge import MirroredKnowledge
from kais_cli.mcp.person_knowledge import PersonKnowledge
from kais_mcp import server, stdio, tool_sets

if TYPE_CHECKING:
    from kais_cli.session import Session


def serve(
    session: Session,
    *,
    tool_set_names: Sequence[str],
    can_launch: bool,
    memory_path: Path | None = None,
) -> None:
    """Serve until the client closes standard input.

    Raises:
        UsageError: a tool set is unknown, or the memory path is not allowed.
    """
    backend = open_backend(session, memory_path)
    built = build(backend, tool_set_names=tool_set_names, can_launch=can_launch)
    try:
        asyncio.run(stdio.serve(built))
    finally:
        backend.close()


def open_backend(session: Session, memory_path: Path | None) -> PersonKnowledge:
    """Return the knowledge of the person, with a mirror if there is a memory path.

    Raises:
        UsageError: the memory path is not allowed, is that of another scope, or no namespace says
            which scope the file follows.
    """
    if memory_path is None:
        return PersonKnowledge(session)
    scope = scope_context.home_realm(session)
    if scope is None:
        raise errors.UsageError(
            "--memory-path follows the graph of one realm: choose it with --namespace"
        )
    path = mirror.check_path(memory_path)
    target = mirror.Mirror(path, session.note, session.environment.now, scope)
    target.check_scope()
    return MirroredKnowledge(session, mirror=target, scope=scope)


def build(
    backend: PersonKnowledge, *, tool_set_names: Sequence[str], can_launch: bool
) -> server.McpServer:
    """Build the server with some tool sets; with a memory file, the graph is that of server-memory.

    Raises:
        UsageError: a tool set is unknown.
    """
    sets = {**tool_sets.TOOL_SETS, team_tools.SET: team_tools.tools(can_launch=can_launch)}
    if isinstance(backend, MirroredKnowledge):
        sets[memory_tools.SET] = memory_tools.TOOLS
    try:
        tools = tool_sets.choose(tool_set_names, sets)
    except tool_sets.UnknownToolSet as exc:
        raise errors.UsageError(f"--tools: {exc}") from exc
    return server.build(PersonHost(backend, tools), tools.values(), metadata.version("kais"))
