"""The caller of a request, in the form of the A2A SDK."""

from __future__ import annotations

from dataclasses import replace

from a2a.server.context import ServerCallContext
from a2a.server.routes.common import ServerCallContextBuilder, StarletteUser
from a2a.utils.constants import VERSION_HEADER
from starlette.requests import Request

from agent_runtime.service.admission import TicketUser
from agent_runtime.tickets import Caller
from kais import trace_context

_CALLER = "caller"
_HEADERS = "headers"


class CallContextBuilder(ServerCallContextBuilder):
    """Takes the caller and the version of the protocol from a request; drops all other headers."""

    def build(self, request: Request) -> ServerCallContext:
        """Return the context of a request."""
        traceparent = trace_context.parse(request.headers.get(trace_context.HEADER))
        context = call_context(replace(request.user.caller, traceparent=traceparent))
        version = request.headers.get(VERSION_HEADER)
        context.state[_HEADERS] = {} if version is None else {VERSION_HEADER: version}
        return context


def call_context(caller: Caller) -> ServerCallContext:
    """Return the context of a call."""
    return ServerCallContext(user=StarletteUser(TicketUser(caller)), state={_CALLER: caller})


def caller_of(context: ServerCallContext) -> Caller:
    """Return the caller of a call."""
    caller = context.state[_CALLER]
    assert isinstance(caller, Caller)  # noqa: S101 - set above
    return caller
