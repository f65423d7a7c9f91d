"""The MCP servers of a mind: connected when a task first needs them, and again on request.

Whatever a server sends is data that may be wrong or hostile: names, descriptions, schemas and
results are bounded, results come in frames, and a server cannot declare which calls may be
repeated. The list of tools stays as it was for the task, so a server cannot exchange a tool in the
middle of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx2
import mcp_types as types
import pydantic
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from agent_runtime.errors import ToolError
from agent_runtime.prompt import SERVER_TAG, Framing
from agent_runtime.server_tools import ServerReports, ServerTool
from agent_runtime.tools import mcp_http
from agent_runtime.tools.mcp_http import ServerFault, ServerTransport
from kais import agent_tools, mcp_servers
from kais.mcp_servers import McpServer, ServerState

MAX_TOOLS: Final = 64
"""Tools of one server that a mind gets at most; each is part of every call of the model."""
MAX_PAGES: Final = 20
NAME_CHARACTERS: Final = 64
"""Longest name of a tool that all providers take."""
DESCRIPTION_CHARACTERS: Final = 2000
SCHEMA_CHARACTERS: Final = 16_384
RESULT_CHARACTERS: Final = 100_000
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_FIRST_WAIT_S: Final = 0.25
_LONGEST_WAIT_S: Final = 5.0
_CLOSE_S: Final = 5.0
_MAX_LISTED_NAMES: Final = 5
_ERROR_MESSAGES: Final = {
    types.PARSE_ERROR: "answers with something else than JSON-RPC",
    types.CONNECTION_CLOSED: "ended its answer too early",
    types.INVALID_REQUEST: "has lost the session, or rejects the request",
}
_ERRORS: Final = (MCPError, pydantic.ValidationError, RuntimeError, ValueError, OSError, EOFError)
_Result = TypeVar("_Result")
_log = logging.getLogger(__name__)


class ServerFailed(Exception):
    """A server could not be used.

    Attributes:
        is_lost: whether the session can no longer be used.
        words: the error message of a server that understood a call and rejected it; None for other
            failures.
    """

    def __init__(
        self, fault: ServerFault, *, is_lost: bool = False, words: str | None = None
    ) -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.is_lost = is_lost
        self.words = words


@dataclass(frozen=True, kw_only=True)
class ServerAccess:
    """The means to connect to servers.

    Attributes:
        folder: the folder with the values of headers.
        register: called with each secret, so that it is masked everywhere.
        mask: replaces secrets in a text.
        transport: creates the connections; tests pass their own.
    """

    folder: Path | None
    register: Callable[[str], None]
    mask: Callable[[str], str]
    transport: Callable[[], httpx2.AsyncBaseTransport]


class _Connection:
    """One session with a server. One asyncio task opens and closes it, as the SDK requires."""

    def __init__(self, server: McpServer, access: ServerAccess) -> None:
        self._transport = ServerTransport(
            access.transport(), server, access.folder, access.register
        )
        self._server = server
        self._is_ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self._owner = asyncio.create_task(self._hold())

    async def list_tools(self) -> list[types.Tool]:
        """Return all tools that the server names.

        Raises:
            ServerFailed: It names none, or not in time.
        """
        return await self._within_timeout(self._list)

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Call a tool, by the name that the server gave it.

        Raises:
            ServerFailed: There is no result.
        """

        async def call(client: Client) -> types.CallToolResult:
            return await client.call_tool(tool, dict(arguments))

        return await self._within_timeout(call)

    async def close(self) -> None:
        """End the session; a server that does not answer delays it by a few seconds at most."""
        self._closing.set()
        done, _ = await asyncio.wait([self._owner], timeout=_CLOSE_S)
        if not done:
            self._owner.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await self._owner

    async def _hold(self) -> None:
        try:
            async with (
                mcp_http.create_client(self._transport) as http,
                Client(streamable_http_client(self._server.url, http_client=http)) as client,
            ):
                self._is_ready.set_result(client)
                await self._closing.wait()
        except Exception as exc:  # noqa: BLE001 - the SDK wraps what happens in groups
            _log.debug("session with MCP server %s", self._server.name, exc_info=True)
            if not self._is_ready.done():
                self._is_ready.set_exception(ServerFailed(self._fault_of(_first(exc))))
                self._is_ready.exception()  # keeps asyncio from logging it

    async def _list(self, client: Client) -> list[types.Tool]:
        listed: list[types.Tool] = []
        cursor = None
        for _ in range(MAX_PAGES):
            page = await client.list_tools(cursor=cursor, cache_mode="refresh")
            listed += page.tools
            cursor = page.next_cursor
            if not cursor:
                break
        return listed

    async def _within_timeout(self, use: Callable[[Client], Awaitable[_Result]]) -> _Result:
        self._transport.forget_fault()

        async def work() -> _Result:
            return await use(await asyncio.shield(self._is_ready))

        working = asyncio.create_task(work())
        try:
            await asyncio.wait(
                [working, self._owner],
                timeout=self._server.timeout_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not working.done() and self._owner.done():
                await asyncio.wait([working], timeout=1)
            if not working.done():
                fault = self._transport.fault or self._late()
                raise ServerFailed(fault, is_lost=self._owner.done())
            return working.result()
        except _ERRORS as exc:
            fault = self._fault_of(exc)
            is_unavailable = fault.state is ServerState.UNAVAILABLE or _has_forgotten(exc)
            is_lost = is_unavailable or self._owner.done()
            raise ServerFailed(fault, is_lost=is_lost, words=self._words(exc)) from exc
        finally:
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await working

    def _words(self, error: Exception) -> str | None:
        if self._transport.fault is not None or not isinstance(error, MCPError):
            return None
        return None if error.error.code in _ERROR_MESSAGES else error.error.message

    def _late(self) -> ServerFault:
        if self._owner.done():
            return ServerFault(ServerState.UNAVAILABLE, "ended the connection")
        return ServerFault(
            ServerState.UNAVAILABLE, f"does not answer within {self._server.timeout}"
        )

    def _fault_of(self, error: Exception) -> ServerFault:
        if isinstance(error, ServerFailed):
            return error.fault
        if self._transport.fault is not None:
            return self._transport.fault
        if isinstance(error, MCPError):
            code = error.error.code
            message = _ERROR_MESSAGES.get(code, f"answers with the MCP error {code}")
            return ServerFault(ServerState.INVALID, message)
        return ServerFault(
            ServerState.INVALID, f"answers with something else than MCP ({type(error).__name__})"
        )


@dataclass
class _Server:
    """A server in one task: its connection and its tools, or why it has none."""

    config: McpServer
    connection: _Connection | None = None
    tools: dict[str, ServerTool] | None = None
    problem: str = ""


@dataclass
class McpServers:
    """The servers of one task."""

    configs: Sequence[McpServer]
    access: ServerAccess
    reports: ServerReports
    framing: Framing
    _servers: dict[str, _Server] = field(default_factory=dict, init=False)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def has_server_of(self, name: str) -> bool:
        """Whether a name is that of a tool of a declared server, connected or not."""
        server = mcp_servers.server_of(name)
        return any(config.name == server for config in self.configs)

    async def tools(self) -> list[ServerTool]:
        """Return the tools of all servers; a server without a connection has one to reconnect."""
        async with self._turn:
            if not self._servers:
                self._servers = {config.name: _Server(config) for config in self.configs}
                await asyncio.gather(*(self._connect(each) for each in self._servers.values()))
        listed: list[ServerTool] = []
        for server in self._servers.values():
            if server.tools is None:
                listed.append(_reconnect_tool(server))
            else:
                listed += server.tools.values()
        return listed

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool, and return its result in a frame.

        Raises:
            ToolError: There is no result.
        """
        if name.startswith(agent_tools.RECONNECT):
            return await self._reconnect(name.removeprefix(agent_tools.RECONNECT))
        server_name, _, tool = name.partition(mcp_servers.SEPARATOR)
        server = self._servers.get(server_name)
        if server is None:
            raise ToolError(f"there is no MCP server {server_name}")
        connection = await self._connected(server)
        if name not in (server.tools or {}):
            offered = ", ".join(server.tools or ()) or "none"
            raise ToolError(f"{server_name} offers no tool {name}; its tools: {offered}")
        try:
            result = await connection.call(tool, arguments)
        except ServerFailed as exc:
            message = self.access.mask(exc.fault.message)
            if exc.words is not None:
                raise ToolError(
                    f"tool-failed: {self._frame(server_name, tool, exc.words)}"
                ) from exc
            if exc.is_lost and server.connection is connection:
                self._fail(server, exc.fault)
                await connection.close()
            raise ToolError(
                f"no-result: {server_name} {message}; whether the call had an effect is unknown"
            ) from exc
        return self._result(server_name, tool, result)

    async def _connected(self, server: _Server) -> _Connection:
        """Return the session with a server, a new one if the last one was lost."""
        async with self._turn:
            if server.connection is None and server.tools is not None:
                await self._connect(server)
        if server.connection is None:
            raise ToolError(f"server-unavailable: {server.config.name} {server.problem}")
        return server.connection

    async def close(self) -> None:
        """End all sessions."""
        connections = [server.connection for server in self._servers.values() if server.connection]
        await asyncio.gather(*(connection.close() for connection in connections))

    async def _reconnect(self, name: str) -> str:
        server = self._servers.get(name)
        if server is None:
            raise ToolError(f"there is no MCP server {name}")
        async with self._turn:
            if server.connection is None:
                await self._connect(server)
        if server.connection is None:
            raise ToolError(f"server-unavailable: {name} {server.problem}")
        return f"{name} is connected; its tools: {', '.join(server.tools or ()) or 'none'}"

    async def _connect(self, server: _Server) -> None:
        """Connect a server within its timeout; retry while the server is not reachable yet."""
        loop = asyncio.get_running_loop()
        end, wait = loop.time() + server.config.timeout_s, _FIRST_WAIT_S
        while True:
            connection = _Connection(server.config, self.access)
            try:
                listed = await connection.list_tools()
            except ServerFailed as exc:
                await connection.close()
                is_deadline_passed = loop.time() + wait >= end
                if exc.fault.state is not ServerState.UNAVAILABLE or is_deadline_passed:
                    self._fail(server, exc.fault)
                    return
                await asyncio.sleep(wait)
                wait = min(_LONGEST_WAIT_S, wait * 2)
            except BaseException:
                await connection.close()
                raise
            else:
                self._accept(server, connection, listed)
                return

    def _accept(self, server: _Server, connection: _Connection, listed: list[types.Tool]) -> None:
        config = server.config
        allowed = [tool for tool in listed if config.allows(tool.name)]
        tools: dict[str, ServerTool] = {}
        uncallable_names: list[str] = []
        for tool in allowed:
            readable = _server_tool(config, tool)
            if readable is None or readable.name in tools or len(tools) >= MAX_TOOLS:
                uncallable_names.append(tool.name)
            else:
                tools[readable.name] = readable
        message = f"{config.url} offers {len(tools)} of its {len(listed)} tools to the mind"
        missing = sorted(set(config.allow or ()) - {tool.name for tool in listed})
        if missing:
            message += f"; it does not offer {_names(missing)}"
        if uncallable_names:
            message += f"; left out, because no model could call them: {_names(uncallable_names)}"
        if server.tools is not None:  # what changed in the middle of a task is not called
            unchanged = {name for name, tool in server.tools.items() if tools.get(name) == tool}
            changed = sorted(set(server.tools) - unchanged)
            tools = {name: tools[name] for name in server.tools if name in unchanged}
            if changed:
                message += f"; left out, because they changed during a task: {_names(changed)}"
        server.connection, server.tools, server.problem = connection, tools, ""
        self.reports.save(config, ServerState.CONNECTED, self.access.mask(message))
        _log.info("MCP server %s: %s", config.name, message)

    def _fail(self, server: _Server, fault: ServerFault) -> None:
        server.connection, server.problem = None, self.access.mask(fault.message)
        message = f"{server.config.url} {server.problem}"
        self.reports.save(server.config, fault.state, message)
        _log.warning("MCP server %s: %s", server.config.name, message)

    def _result(self, server: str, tool: str, result: types.CallToolResult) -> str:
        frame = self._frame(server, tool, _text(result))
        if result.is_error:
            raise ToolError(f"tool-failed: {frame}")
        return frame

    def _frame(self, server: str, tool: str, text: str) -> str:
        text = self.access.mask(text)
        if len(text) > RESULT_CHARACTERS:
            text = f"{text[:RESULT_CHARACTERS]}\n[cut]"
        return self.framing.wrap(SERVER_TAG, text, {"name": server, "tool": tool})


def _reconnect_tool(server: _Server) -> ServerTool:
    name = server.config.name
    return ServerTool(
        f"{agent_tools.RECONNECT}{name}",
        f"The MCP server {name} does not answer. Connects it again, and names its tools.",
        {"type": "object", "properties": {}},
    )


def _server_tool(config: McpServer, tool: types.Tool) -> ServerTool | None:
    """Return a tool as the mind gets it; None if no provider takes it."""
    name = config.tool_name(tool.name)
    schema = tool.input_schema
    if len(name) > NAME_CHARACTERS or _NAME.fullmatch(name) is None:
        return None
    try:
        size = len(json.dumps(schema, allow_nan=False))
    except (ValueError, RecursionError):  # a number that JSON lacks, or too deep
        return None
    if schema.get("type") != "object" or size > SCHEMA_CHARACTERS:
        return None
    description = (tool.description or tool.title or "").strip()[:DESCRIPTION_CHARACTERS]
    return ServerTool(name, f"MCP server {config.name}: {description}", schema)


def _first(error: Exception) -> Exception:
    """Return the first exception of a group."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _has_forgotten(error: Exception) -> bool:
    """Whether a server has lost the session, for example in a restart."""
    return isinstance(error, MCPError) and error.error.code == types.INVALID_REQUEST


def _text(result: types.CallToolResult) -> str:
    parts = [_part(part) for part in result.content]
    if not parts and result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False)
    return "\n".join(parts)


def _part(part: types.ContentBlock) -> str:
    match part:
        case types.TextContent():
            return part.text
        case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
            return resource.text
        case types.ResourceLink():
            return f"[resource {part.uri}]"
        case _:
            return f"[{part.type} left out]"


def _names(names: Sequence[str]) -> str:
    listed_names = ", ".join(_line(name)[:NAME_CHARACTERS] for name in names[:_MAX_LISTED_NAMES])
    return (
        listed_names
        if len(names) <= _MAX_LISTED_NAMES
        else f"{listed_names} and {len(names) - _MAX_LISTED_NAMES} more"
    )


def _line(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)[:200]
