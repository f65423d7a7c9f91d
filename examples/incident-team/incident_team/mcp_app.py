"""Serves tools by MCP over HTTP, to callers that send the key."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import ToolAnnotations
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from namespace_doctor.kubernetes_api import ClusterError

KEY_HEADER = "X-Api-Key"
HEALTH_PATH = "/healthz"
_MAX_BODY = 64 * 1024
Tool = Callable[..., str]


def create_app(name: str, tools: Iterable[Tool], *, is_read_only: bool, key_file: Path) -> ASGIApp:
    """Return the app of a server at `/mcp`; the name of a tool is that of its function."""
    # The key decides who may call; a Host may be any name of the Service.
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    server = MCPServer(name)
    annotations = ToolAnnotations(
        read_only_hint=is_read_only, destructive_hint=False, idempotent_hint=True
    )
    for tool in tools:
        server.tool(annotations=annotations, structured_output=False)(_anticipated(tool))
    server.custom_route(HEALTH_PATH, methods=["GET"])(_health)
    app = server.streamable_http_app(
        json_response=True,
        stateless_http=True,
        max_request_body_size=_MAX_BODY,
        transport_security=security,
    )
    return _KeyRequired(app, key_file)


async def _health(_request: Request) -> Response:
    return PlainTextResponse("ok")


def _anticipated(tool: Tool) -> Tool:
    """Show the model the errors of the cluster; all other errors are only logged."""

    @functools.wraps(tool)
    def call(*arguments: object, **named: object) -> str:
        try:
            return tool(*arguments, **named)
        except ClusterError as exc:
            raise ToolError(str(exc)) from exc

    return call


class _KeyRequired:
    """Answers 401 to requests without the key; the file is read for each, so it may be rotated."""

    def __init__(self, app: ASGIApp, key_file: Path) -> None:
        self._app = app
        self._key_file = key_file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != HEALTH_PATH:
            sent = Headers(scope=scope).get(KEY_HEADER, "")
            key = self._key_file.read_text().strip()
            if not key or not secrets.compare_digest(sent.encode(), key.encode()):
                response = PlainTextResponse(f"send the key in {KEY_HEADER}", status_code=401)
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)
