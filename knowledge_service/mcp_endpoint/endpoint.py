"""The ASGI endpoint of MCP: streamable HTTP, stateless, in both revisions of the protocol.

Origin -> authenticate -> count the call -> read the body -> the SDK -> `_ServiceHost` -> use cases

The caller is the one of the bearer token, and speaks as an agent: a model chooses the calls, also
on behalf of a person. So it sees no drafts, and reviews nothing. Each call of a tool is charged to
the quotas of the caller by what the tool does.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import Any, TypeVar

import pydantic_core
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kais_mcp import server, tool_sets
from kais_mcp.failures import ToolFailure
from kais_mcp.tools import QuotaName, Tool
from knowledge_service.errors import Forbidden, NotFound, ServiceError, Unauthenticated
from knowledge_service.mcp_endpoint.caller_knowledge import CallerKnowledge
from knowledge_service.routes import dependencies, problems, request_bodies
from knowledge_service.routes.dependencies import Offload
from knowledge_service.use_cases import rate_limits
from knowledge_service.use_cases.services import Services

T = TypeVar("T")
_CALL = "kais.mcp"
_PATH = "/mcp"
_METADATA_PATH = "/.well-known/oauth-protected-resource"
_HOST = re.compile(r"[A-Za-z0-9.\-]+(:\d+)?|\[[0-9A-Fa-f:.]+\](:\d+)?")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Call:
    """One request of a caller."""

    offload: Offload
    tools: Mapping[str, Tool]


class McpEndpoint:
    """Serves MCP for the callers of the service.

    `origins` are those of web pages that may call it; programs send no `Origin`. `public_url` is
    the address that clients use, if a proxy stands between; None: the one of each request.
    """

    def __init__(self, *, origins: Sequence[str] = (), public_url: str | None = None) -> None:
        self._origins = frozenset(origins)
        self._public_url = public_url.rstrip("/") if public_url else None
        sdk_server = server.build(
            _ServiceHost(),
            tool_sets.choose(tuple(tool_sets.TOOL_SETS)).values(),
            metadata.version("kais"),
        )
        self._sessions = StreamableHTTPSessionManager(
            sdk_server,
            json_response=True,
            stateless=True,
            # This module checks Origin; a Host may be any name of the service.
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            max_request_body_size=request_bodies.max_bytes(_PATH),
        )

    @asynccontextmanager
    async def lifespan(self, _app: Any) -> AsyncIterator[None]:
        """Run the tasks of the SDK while the app runs."""
        async with self._sessions.run():
            yield

    def routes(self) -> list[BaseRoute]:
        """Return the routes: the endpoint with or without tool sets, and its metadata."""
        app: ASGIApp = _AsgiApp(self._serve)
        if self._origins:
            app = CORSMiddleware(
                app,
                allow_origins=sorted(self._origins),
                allow_methods=["POST"],
                allow_headers=["*"],
                expose_headers=["WWW-Authenticate"],
            )
        return [
            Route(_PATH, app),
            Route(_PATH + "/{tool_sets}", app),
            Route(_METADATA_PATH, self._describe_resource),
            Route(_METADATA_PATH + _PATH, self._describe_resource),
            Route(_METADATA_PATH + _PATH + "/{tool_sets}", self._describe_resource),
        ]

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        services: Services = scope["app"].state.services
        headers = dict(reversed(scope["headers"]))
        try:
            self._check_origin(headers.get(b"origin"))
            token = dependencies.bearer_token_of(_text(headers, b"authorization"))
            principal = (await services.authenticator.principal(token)).as_agent()
        except Unauthenticated as exc:
            await self._challenge(Request(scope), exc)(scope, receive, send)
            return
        if scope["method"] != "POST":
            # There is no session, so no stream to open and none to delete.
            await Response(status_code=405, headers={"Allow": "POST"})(scope, receive, send)
            return
        tools = _tools_of(scope["path_params"].get("tool_sets", tool_sets.DEFAULT))
        length = _text(headers, b"content-length") or None
        limit = request_bodies.max_bytes(scope["path"])
        request_bodies.check_length(length, limit)
        size = dependencies.body_bytes("POST", length)
        with services.concurrency_limiter.count_call(principal, size):
            body = await request_bodies.read(receive, limit)
            if not _is_tool_call(body):
                services.rate_limiter.take(principal, {"reads": 1})
            scope[_CALL] = _Call(Offload(services, principal, body), tools)
            await self._sessions.handle_request(scope, _replay(body, receive), send)

    def _check_origin(self, origin: bytes | None) -> None:
        if origin is not None and origin.decode("latin-1") not in self._origins:
            raise Forbidden(
                "this Origin may not call the MCP endpoint; an administrator can add it to"
                " KAIS_MCP_ORIGINS"
            )

    def _challenge(self, request: Request, exc: Unauthenticated) -> Response:
        response = problems.problem_response(exc)
        base_url = self._base_url(request)
        if base_url:
            url = f"{base_url}{_METADATA_PATH}{request.url.path}"
            challenge = response.headers["WWW-Authenticate"]
            response.headers["WWW-Authenticate"] = f'{challenge}, resource_metadata="{url}"'
        return response

    async def _describe_resource(self, request: Request) -> JSONResponse:
        """Return the metadata of the protected resource (RFC 9728).

        Tokens come from the cluster or from an administrator, so no authorization server is named.
        """
        path = request.url.path.removeprefix(_METADATA_PATH) or _PATH
        document = {
            "resource": f"{self._base_url(request) or ''}{path}",
            "resource_name": "kais knowledge service",
            "bearer_methods_supported": ["header"],
        }
        return JSONResponse(document)

    def _base_url(self, request: Request) -> str | None:
        if self._public_url:
            return self._public_url
        host = request.headers.get("host", "")
        return f"{request.url.scheme}://{host}" if _HOST.fullmatch(host) else None


class _ServiceHost:
    """The `Host` of the SDK's server: calls use cases as the caller of each request."""

    def tools(self, request: Any) -> Mapping[str, Tool]:
        """Return the tools that the path of the request chose."""
        call: _Call = request.scope[_CALL]
        return call.tools

    async def run(
        self,
        request: Any,
        cost: Mapping[QuotaName, int],
        call: Callable[[Any], Awaitable[T]],
    ) -> T:
        """Charge the caller, then call with its rights.

        Raises:
            ToolFailure: the service refused the call.
        """
        offload: Offload = request.scope[_CALL].offload
        amounts: dict[rate_limits.QuotaName, int] = dict(cost)
        if "writes" in cost:
            amounts["bytes"] = len(offload.body)
        try:
            offload.services.rate_limiter.take(offload.principal, amounts)
            return await call(CallerKnowledge(offload))
        except ServiceError as exc:
            problems.log_refusal(_PATH, exc)
            raise ToolFailure(exc.problem(), exc.retry_after_s) from exc


class _AsgiApp:
    """Starlette takes a function for a request handler, and an object for an ASGI app."""

    def __init__(self, serve: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self._serve = serve

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._serve(scope, receive, send)


def _tools_of(names: str) -> Mapping[str, Tool]:
    try:
        return tool_sets.choose(names.split(","))
    except tool_sets.UnknownToolSet as exc:
        raise NotFound(str(exc)) from exc


def _is_tool_call(body: bytes) -> bool:
    """Return whether a message calls a tool, which is charged by its tool; others cost a read.

    The SDK rejects a call without an id or a name before any tool could charge it.
    """
    try:
        message = pydantic_core.from_json(body)
    except ValueError:
        return False
    if not isinstance(message, dict) or message.get("method") != "tools/call":
        return False
    params = message.get("params")
    return (
        isinstance(message.get("id"), int | str)
        and isinstance(params, dict)
        and isinstance(params.get("name"), str)
        and isinstance(params.get("arguments"), dict | None)
    )


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a channel that has the body, and then what the connection receives."""
    is_sent = False

    async def receive_again() -> Message:
        nonlocal is_sent
        if is_sent:
            return await receive()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def _text(headers: Mapping[bytes, bytes], name: bytes) -> str:
    return headers.get(name, b"").decode("latin-1")
