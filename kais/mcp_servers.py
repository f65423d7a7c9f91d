"""MCP servers as tools of a mind: what `spec.tools` declares, and what the agent runtime reports.

A server is one entry of `spec.tools` with the name `mcp`. Its tools have names such as
"cluster__list_pods"; the name of a server contains no underscore, so no two names are equal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Final

import pydantic
from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from kais import durations
from kais.resources.cell_template import SelectedKey, Tool
from kais.resources.field_types import Duration, Reference

MCP: Final = "mcp"
SEPARATOR: Final = "__"
MAX_SERVERS: Final = 8
MAX_TIMEOUT: Final = timedelta(minutes=15)
MESSAGE_CHARACTERS: Final = 500
"""Maximum length of what is reported about a server."""
REFUSED_HEADERS: Final = frozenset(
    {
        *("accept", "accept-encoding", "connection", "content-encoding", "content-length"),
        *("content-type", "cookie", "host", "keep-alive", "last-event-id", "set-cookie", "te"),
        *("traceparent", "tracestate", "trailer", "transfer-encoding", "upgrade"),
    }
)
"""Headers of the protocol, or of servers; those with one of `_PREFIXES` are refused too."""
_PREFIXES: Final = ("mcp-", "proxy-", "x-kais-")
_NAME: Final = r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$"
_URL: Final = re.compile(r"^https?://[^\s/?#]+(/[^\s#]*)?$")
_HEADER: Final = r"^[A-Za-z0-9-]+$"


class _Config(pydantic.BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)


class HeaderSource(_Config):
    """A header of every request to a server, whose value is in a Secret of the namespace."""

    name: Annotated[str, Field(min_length=1, max_length=64, pattern=_HEADER)]
    secret: Reference
    key: SelectedKey

    @pydantic.field_validator("name")
    @classmethod
    def _may_be_sent(cls, name: str) -> str:
        lowered = name.lower()
        if lowered in REFUSED_HEADERS or lowered.startswith(_PREFIXES):
            raise ValueError(f"the header {name} is never sent to a server")
        return name


class McpServer(_Config):
    """One MCP server, as `config` of the tool `mcp` declares it."""

    url: Annotated[str, Field(max_length=2048)]
    name: Annotated[str, Field(max_length=32, pattern=_NAME)] = MCP
    headers_from: Annotated[tuple[HeaderSource, ...], Field(max_length=8)] = ()
    allow: Annotated[tuple[str, ...], Field(min_length=1, max_length=128)] | None = None
    timeout: Duration = "30s"

    @pydantic.field_validator("url")
    @classmethod
    def _is_address(cls, url: str) -> str:
        if _URL.match(url) is None:
            raise ValueError("it must begin with http:// or https:// and a host")
        if "@" in url.split("/")[2]:
            raise ValueError(
                "it contains a user; put credentials into a Secret, and use headersFrom"
            )
        return url

    @pydantic.field_validator("timeout")
    @classmethod
    def _is_short(cls, timeout: str) -> str:
        if durations.parse(timeout) > MAX_TIMEOUT:
            raise ValueError("it must be at most 15m")
        return timeout

    @pydantic.model_validator(mode="after")
    def _names_headers_once(self) -> McpServer:
        names = [header.name.lower() for header in self.headers_from]
        if len(set(names)) < len(names):
            raise ValueError("headersFrom names a header twice")
        return self

    @property
    def timeout_s(self) -> float:
        """How long a connection, and each call of a tool, may take."""
        return durations.parse(self.timeout).total_seconds()

    def allows(self, tool: str) -> bool:
        """Whether the mind gets a tool of the server."""
        return self.allow is None or tool in self.allow

    @property
    def prefix(self) -> str:
        """The beginning of the names of its tools."""
        return f"{self.name}{SEPARATOR}"

    def tool_name(self, tool: str) -> str:
        """Return the name by which the mind calls a tool of the server."""
        return f"{self.prefix}{tool}"


class InvalidServers(ValueError):
    """The entries of `spec.tools` about MCP servers cannot be used; the message says why."""


def parse(tools: Iterable[Tool]) -> tuple[McpServer, ...]:
    """Return the servers that `spec.tools` declares.

    Raises:
        InvalidServers: An entry is not valid, or two servers have one name.
    """
    tools = list(tools)
    servers = tuple(_parse(tool) for tool in tools if tool.name == MCP)
    names = [server.name for server in servers]
    for name in names:
        if names.count(name) > 1:
            raise InvalidServers(
                f"spec.tools: {names.count(name)} MCP servers have the name {name}; give each its "
                "own config.name"
            )
    if len(servers) > MAX_SERVERS:
        raise InvalidServers(f"spec.tools: more than {MAX_SERVERS} MCP servers")
    for tool in tools:
        if is_server_tool(tool.name):
            _require_server(tool.name, servers)
    return servers


def is_server_tool(name: str) -> bool:
    """Whether a name in `spec.tools` means one tool of a server, such as "cluster__list_pods"."""
    return re.match(_NAME, name.partition(SEPARATOR)[0]) is not None and SEPARATOR in name


def server_of(name: str) -> str | None:
    """Return the server of a tool such as "cluster__list_pods"; None for other tools."""
    return name.partition(SEPARATOR)[0] if is_server_tool(name) else None


def _require_server(name: str, servers: Iterable[McpServer]) -> None:
    server_name, _, tool = name.partition(SEPARATOR)
    server = next((config for config in servers if config.name == server_name), None)
    if server is None:
        raise InvalidServers(
            f"spec.tools: {name} is a tool of the MCP server {server_name}, which is not declared"
        )
    if not server.allows(tool):
        raise InvalidServers(
            f"spec.tools: {name} is not among the tools in config.allow of {server_name}"
        )


def _parse(tool: Tool) -> McpServer:
    try:
        return McpServer.model_validate(tool.config or {}, by_alias=True, by_name=False)
    except pydantic.ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        field_path = ".".join(["config", *(str(part) for part in first["loc"])])
        problem = first["msg"].removeprefix("Value error, ")
        raise InvalidServers(f"spec.tools: mcp: {field_path}: {problem}") from exc


class ServerState(StrEnum):
    """The result of the latest connection to a server."""

    CONNECTED = "connected"
    UNAVAILABLE = "unavailable"
    REFUSED = "refused"
    INVALID = "invalid"


@dataclass(frozen=True)
class ServerReport:
    """A report of the agent runtime about one server; outdated if `url` is an earlier address."""

    url: str
    state: ServerState
    message: str


Reports = Mapping[str, ServerReport]
"""Reports by the name of the server."""


def dump_reports(reports: Reports) -> dict[str, Any]:
    """Return reports as JSON."""
    return {
        name: {"url": report.url, "state": report.state.value, "message": report.message}
        for name, report in sorted(reports.items())
    }


def parse_reports(value: Any) -> dict[str, ServerReport]:
    """Read the untrusted reports of a cell, bounded; invalid ones are left out."""
    if not isinstance(value, dict):
        return {}
    read = {name: _report(entry) for name, entry in list(value.items())[:MAX_SERVERS]}
    return {
        name: report
        for name, report in read.items()
        if report is not None and isinstance(name, str) and re.match(_NAME, name)
    }


def _report(value: Any) -> ServerReport | None:
    if not isinstance(value, dict) or value.get("state") not in set(ServerState):
        return None
    texts = (value.get("url"), value.get("message"))
    if not all(isinstance(text, str) for text in texts):
        return None
    url, message = (str(text) for text in texts)
    return ServerReport(url[:2048], ServerState(value["state"]), _line(message))


def _line(text: str) -> str:
    readable = "".join(character if character.isprintable() else " " for character in text)
    return readable[:MESSAGE_CHARACTERS]


def dump_annotation(reports: Reports) -> str:
    """Serialise reports for the annotation of a Cell."""
    return json.dumps(dump_reports(reports), sort_keys=True, separators=(",", ":"))


def parse_annotation(text: str | None) -> dict[str, ServerReport]:
    """Read the annotation of a Cell; what is not valid is left out."""
    try:
        return parse_reports(json.loads(text)) if text else {}
    except (ValueError, RecursionError):
        return {}


def current(servers: Sequence[McpServer], reports: Reports) -> dict[str, ServerReport]:
    """Return the reports about declared servers under their present address."""
    urls = {server.name: server.url for server in servers}
    return {name: report for name, report in reports.items() if urls.get(name) == report.url}
