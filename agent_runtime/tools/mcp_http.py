"""The HTTP client for one MCP server: its headers, and the bounds of every response.

A request has the headers that the spec names. Their files are read for each request. It has no
tokens or cookies of the runtime, and no headers of a caller. Redirects are never followed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx2

from kais.mcp_servers import McpServer, ServerState

RESPONSE_BYTES: Final = 4 * 1024 * 1024
CONNECT_S: Final = 10.0
_HEADER_BYTES: Final = 16 * 1024
_DROPPED: Final = ("authorization", "cookie", "traceparent", "tracestate")
_STREAM: Final = "text/event-stream"
_FIRST_REDIRECT: Final = 300
_FIRST_ERROR: Final = 400
_FIRST_SERVER_ERROR: Final = 500
_REFUSED: Final = (401, 403)
_TOO_MANY_REQUESTS: Final = 429
_PROTOCOL_ANSWERS: Final = (400, 404, 405, 406)
"""Statuses by which servers of other protocol versions answer; the SDK understands them."""


@dataclass(frozen=True)
class ServerFault:
    """Why a server gave no usable answer."""

    state: ServerState
    message: str


class _TooLarge(httpx2.StreamError):
    """A response exceeds its bound."""


@dataclass
class ServerTransport(httpx2.AsyncBaseTransport):
    """Adds the headers of a server to requests, and rejects responses that are not of MCP.

    A fault is recorded and becomes an error response, because an exception would end the SDK's
    session without a reason.

    Attributes:
        folder: the folder with a file for each header; None without headers.
        register: called with each secret, so that it is masked everywhere.
        fault: the latest fault.
    """

    inner: httpx2.AsyncBaseTransport
    server: McpServer
    folder: Path | None
    register: Callable[[str], None]
    fault: ServerFault | None = field(default=None, init=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request; a fault becomes a response with an error status."""
        for header in _DROPPED:
            request.headers.pop(header, None)
        request.headers["accept-encoding"] = "identity"
        try:
            for source in self.server.headers_from:
                request.headers[source.name] = self._read(source.name)
            response = await self.inner.handle_async_request(request)
        except _HeaderMissing as exc:
            return self._fail(request, ServerState.REFUSED, str(exc))
        except httpx2.TimeoutException:
            return self._fail(request, ServerState.UNAVAILABLE, "does not answer in time")
        except httpx2.HTTPError as exc:
            message = f"cannot be reached ({type(exc).__name__})"
            return self._fail(request, ServerState.UNAVAILABLE, message)
        fault = _fault(request, response)
        if fault is not None:
            await response.aclose()
            return self._fail(request, fault.state, fault.message)
        response.headers.pop("set-cookie", None)
        assert isinstance(response.stream, httpx2.AsyncByteStream)  # noqa: S101 - of this transport
        response.stream = _BoundedStream(response.stream, self)
        return response

    async def aclose(self) -> None:
        """Close the connections."""
        await self.inner.aclose()

    def forget_fault(self) -> None:
        """Drop the fault of an earlier request."""
        self.fault = None

    def record(self, state: ServerState, message: str) -> None:
        """Record a fault."""
        self.fault = ServerFault(state, message)

    def _fail(self, request: httpx2.Request, state: ServerState, message: str) -> httpx2.Response:
        self.record(state, message)
        return httpx2.Response(502, request=request)

    def _read(self, header: str) -> str:
        source = next(
            header_source
            for header_source in self.server.headers_from
            if header_source.name == header
        )
        key_and_secret = (
            f"the key {source.key} of the Secret {source.secret} for the header {header}"
        )
        try:
            folder = self.folder or Path()
            with (folder / self.server.name / header.lower()).open("rb") as stream:
                value = stream.read(_HEADER_BYTES).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as exc:
            raise _HeaderMissing(
                f"gets no request: {key_and_secret} is missing or no text"
            ) from exc
        if not value or not value.isprintable():
            raise _HeaderMissing(
                f"gets no request: {key_and_secret} is empty or has more than one line"
            )
        self.register(value)
        return value


class _HeaderMissing(Exception):
    """A header has no value."""


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, transport: ServerTransport) -> None:
        self._inner = inner
        self._transport = transport

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for chunk in self._inner:
                size += len(chunk)
                if size > RESPONSE_BYTES:
                    message = f"answered with more than {RESPONSE_BYTES} bytes"
                    self._transport.record(ServerState.INVALID, message)
                    raise _TooLarge(message)
                yield chunk
        except httpx2.HTTPError as exc:
            message = f"ended its answer too early ({type(exc).__name__})"
            self._transport.record(ServerState.UNAVAILABLE, message)
            raise _TooLarge(message) from exc

    async def aclose(self) -> None:
        await self._inner.aclose()


def create_client(transport: ServerTransport) -> httpx2.AsyncClient:
    """Create the client; the limits of time are those of the calls."""
    return httpx2.AsyncClient(
        transport=transport,
        timeout=httpx2.Timeout(None, connect=CONNECT_S),
        follow_redirects=False,
        trust_env=False,
    )


def _fault(request: httpx2.Request, response: httpx2.Response) -> ServerFault | None:
    status = response.status_code
    if _FIRST_REDIRECT <= status < _FIRST_ERROR:
        return ServerFault(
            ServerState.INVALID,
            f"answers with a redirect (HTTP {status}), which is not followed; set config.url to "
            "the final address",
        )
    if status in _REFUSED:
        return ServerFault(ServerState.REFUSED, f"refuses the request (HTTP {status})")
    if status >= _FIRST_ERROR and status not in _PROTOCOL_ANSWERS:
        is_unavailable = status >= _FIRST_SERVER_ERROR or status == _TOO_MANY_REQUESTS
        state = ServerState.UNAVAILABLE if is_unavailable else ServerState.INVALID
        return ServerFault(state, f"answers with HTTP {status}")
    if status >= _FIRST_ERROR:
        return None
    if response.headers.get("content-encoding", "identity") != "identity":
        return ServerFault(ServerState.INVALID, "compresses its answer unasked")
    return _content_fault(request, response)


def _content_fault(request: httpx2.Request, response: httpx2.Response) -> ServerFault | None:
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    has_body = response.status_code == httpx2.codes.OK and request.method == "POST"
    if has_body and kind not in (_STREAM, "application/json"):
        return ServerFault(
            ServerState.INVALID,
            f"answers with {kind[:80] or 'no content type'} instead of JSON; check config.url",
        )
    return None
