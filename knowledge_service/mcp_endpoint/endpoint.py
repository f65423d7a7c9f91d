"""The ASGI endpoint of MCP: streamable HTTP, stateless, in both revisions of the protocol.

Origin -> authenticate -> count the call -> read the body -> the SDK -> `_ServiceHost` -> use cases

The caller is the one of the bearer token, and speaks as an agent: a model chooses the calls, also
on behalf of a person. So it sees no drafts, and reviews nothing. Each call of a tool is charged to
the quotas of the caller by what the tool does.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import Any, TypeVar
from urllib.parse import quote

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
from kais_mcp.resources import Reference
from kais_mcp.subscriptions import Changes
from kais_mcp.tools import QuotaName, Tool
from knowledge_client.models import Event
from knowledge_service.domain.principals import Principal
from knowledge_service.errors import Forbidden, NotFound, ServiceError, Unauthenticated
from knowledge_service.mcp_endpoint.caller_knowledge import CallerKnowledge
from knowledge_service.open_reads import OpenRead
from knowledge_service.routes import dependencies, problems, request_bodies, streams
from knowledge_service.routes.streams import CallerGuard, EventFeed
from knowledge_service.use_cases import event_stream, rate_limits, resource_changes
from knowledge_service.use_cases.offload import Offload
from knowledge_service.use_cases.services import Services

T = TypeVar("T")
_CALL = "kais.mcp"
_PATH = "/mcp"
_METADATA_PATH = "/.well-known/oauth-protected-resource"
_TOOL_CALL, _LISTEN = "tools/call", "subscriptions/listen"
# Tokens of a cluster last an hour; clients listen again.
_MAX_LISTEN_S = 3600.0
# Events that change a fact, but not a list of facts.
_CHANGES_WITHIN = frozenset({"fact.confirmed", "fact.bounded", "fact.flagged"})
_HOST = re.compile(r"[A-Za-z0-9.\-]+(:\d+)?|\[[0-9A-Fa-f:.]+\](:\d+)?")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Call:
    """One request of a caller."""

    offload: Offload
    open_read: OpenRead
    tools: Mapping[str, Tool]
    token: str | None


class McpEndpoint:
    """Serves MCP for the callers of the service.

    `origins` are the origins of web pages that may call it; programs send no `Origin`. `public_url`
    is the address that clients use behind a proxy; None stands for the address of each request.
    """

    def __init__(self, *, origins: Sequence[str] = (), public_url: str | None = None) -> None:
        self._origins = frozenset(origins)
        self._public_url = public_url.rstrip("/") if public_url else None
        sdk_server = server.build(
            _ServiceHost(),
            tool_sets.choose(tuple(tool_sets.TOOL_SETS)).values(),
            metadata.version("kais"),
            follow=_follow,
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
        scope[dependencies.PRINCIPAL] = principal
        if scope["method"] != "POST":
            # Without sessions, there is no stream to open (GET) and no session to delete (DELETE).
            await Response(status_code=405, headers={"Allow": "POST"})(scope, receive, send)
            return
        tools = _tools_of(scope["path_params"].get("tool_sets", tool_sets.DEFAULT))
        length = _text(headers, b"content-length") or None
        limit = request_bodies.max_bytes(scope["path"])
        request_bodies.check_length(length, limit)
        size = dependencies.body_bytes("POST", length)
        open_read = OpenRead(services.open_reads)
        with ExitStack() as ended, ExitStack() as counted:
            ended.callback(open_read.end)
            counted.enter_context(services.concurrency_limiter.count_call(principal, size))
            body = await request_bodies.read(receive, limit)
            method = _method_of(body)
            if method != _TOOL_CALL:
                services.rate_limiter.take(principal, {"reads": 1})
            if method == _LISTEN:
                counted.close()  # it counts as a stream
            offload = Offload(services, principal, body)
            scope[_CALL] = _Call(offload, open_read, tools, token)
            with streams.closed_when_unread(send) as send_in_time:
                await self._sessions.handle_request(scope, _replay(body, receive), send_in_time)

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
            url = f"{base_url}{_METADATA_PATH}{_quoted(request.url.path)}"
            challenge = response.headers["WWW-Authenticate"]
            response.headers["WWW-Authenticate"] = f'{challenge}, resource_metadata="{url}"'
        return response

    async def _describe_resource(self, request: Request) -> JSONResponse:
        """Return the metadata of the protected resource (RFC 9728).

        Tokens come from the cluster or from an administrator, so no authorization server is named.
        """
        path = request.url.path.removeprefix(_METADATA_PATH) or _PATH
        document = {
            "resource": f"{self._base_url(request) or ''}{_quoted(path)}",
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
        caller: _Call = request.scope[_CALL]
        offload = caller.offload
        amounts: dict[rate_limits.QuotaName, int] = dict(cost)
        if "writes" in cost:
            amounts["bytes"] = len(offload.body)
        try:
            offload.services.rate_limiter.take(offload.principal, amounts)
            return await call(CallerKnowledge(offload, caller.open_read))
        except ServiceError as exc:
            problems.log_refusal(_PATH, exc)
            raise ToolFailure(exc.problem(), exc.retry_after_s) from exc


@asynccontextmanager
async def _follow(
    request: Any, references: Iterable[Reference]
) -> AsyncIterator[AsyncIterator[Changes]]:
    call: _Call = request.scope[_CALL]
    services, principal = call.offload.services, call.offload.principal
    try:
        open_reader = functools.partial(
            event_stream.EventReader, services.store, principal, token=None
        )
        reader = await call.offload.run(open_reader, "lookups")
        subscription = services.subscription_limiter.subscribe(principal)
    except ServiceError as exc:
        problems.log_refusal(_PATH, exc)
        raise ToolFailure(exc.problem(), exc.retry_after_s) from exc
    try:
        guard = CallerGuard(services, call.token, principal, Principal.as_agent)
        feed = EventFeed(services, reader, guard, subscription, _MAX_LISTEN_S)
        graph = frozenset(reference for reference in references if reference.kind != "fact")
        yield _changes(call, feed, graph)
    finally:
        subscription.release()


async def _changes(
    call: _Call, feed: EventFeed, graph: frozenset[Reference]
) -> AsyncIterator[Changes]:
    """Yield the changes of each batch of events; `graph` are the subscribed parts of the graph."""
    async for events in feed.batches():
        if not events:
            continue
        facts = {fact_id for event in events for fact_id in event.facts}
        references = {Reference("fact", fact_id) for fact_id in facts}
        if graph:
            references |= await _graph_references(call.offload, facts, graph)
        has_list_changed = any(map(_is_list_change, events))
        yield Changes(frozenset(references), has_list_changed)


async def _graph_references(
    offload: Offload, facts: Iterable[str], followed: Iterable[Reference]
) -> set[Reference]:
    names = frozenset(reference.id for reference in followed if reference.kind == "entity")
    find = functools.partial(
        resource_changes.find_graph_changes,
        offload.services.store,
        offload.principal,
        facts,
        names,
    )
    changes = await offload.run(find, "lookups")
    return {
        *(Reference("entity", name) for name in changes.entities),
        *(Reference("chart", chart_id) for chart_id in changes.charts),
    }


def _is_list_change(event: Event) -> bool:
    return event.type.startswith("fact.") and event.type not in _CHANGES_WITHIN


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


def _method_of(body: bytes) -> str | None:
    """Return the method of a message; None for a call that cannot reach a tool.

    A call of a tool is charged by its tool; other messages cost a read. The SDK rejects a call
    without an id or a name before any tool could charge it.
    """
    try:
        message = pydantic_core.from_json(body)
    except ValueError:
        return None
    method = message.get("method") if isinstance(message, dict) else None
    if not isinstance(method, str) or method != _TOOL_CALL:
        return method if isinstance(method, str) else None
    params = message.get("params")
    is_complete = (
        isinstance(message.get("id"), int | str)
        and isinstance(params, dict)
        and isinstance(params.get("name"), str)
        and isinstance(params.get("arguments"), dict | None)
    )
    return method if is_complete else None


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


def _quoted(path: str) -> str:
    """Return a decoded path as an address has it: callers choose its characters."""
    return quote(path, safe="/,")


def _text(headers: Mapping[bytes, bytes], name: bytes) -> str:
    return headers.get(name, b"").decode("latin-1")
