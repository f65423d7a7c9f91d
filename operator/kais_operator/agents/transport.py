"""Transports to the Services of cells: from inside the cluster, or through the API server.

Both take addresses such as `http://team-lead-0.demo.svc:8080/rpc`. A cell is untrusted: an answer
is read up to a bound, and compressed ones are refused, because they may be a thousand times larger.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import Protocol

import httpx

from kais_operator import errors

MAX_BYTES = 4 * 1024 * 1024
"""Bytes of an answer: an arbitrary bound, far above the longest answer of the agent runtime."""
MAX_STREAM_BYTES = 1024 * 1024
"""Bytes of an event stream, which is read as it comes: an arbitrary bound, for about an hour."""
_EVENTS = "text/event-stream"
_DROPPED = frozenset({"host", "content-length", "connection", "accept-encoding", "authorization"})

_UNREACHED = (HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE)
_NOT_CONNECTED = re.compile(
    rb'"message": ?"(?:services [^ ]+ not found|no endpoints available for service'
    rb'|[^"]*connect: connection refused)'
)
"""The API server knows no pod of a Service yet, or reached none: no request was sent to one."""
_TIME_WITHOUT_ZONE = re.compile(rb'("timestamp": ?"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?)"')


class ApiProxy(Protocol):
    """Sends requests to Services through the API server."""

    async def proxy(
        self, method: str, path: str, *, headers: Mapping[str, str], body: bytes, max_bytes: int
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request below `/api/v1/namespaces/…/proxy`, and return the bounded answer.

        Raises:
            ClusterError: The API server did not answer, or the answer is too large.
        """
        ...


class DirectTransport(httpx.AsyncBaseTransport):
    """Connects to the Services directly, as a pod of the cluster can; supports event streams."""

    streams = True

    def __init__(self) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        self._inner = httpx.AsyncHTTPTransport(limits=limits)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request and read the bounded answer."""
        request.headers["Accept-Encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        is_compressed = "content-encoding" in response.headers
        if _is_stream(response) and not is_compressed:
            headers = _content_type(response.headers)
            stream = _BoundedStream(response, request)
            return httpx.Response(response.status_code, headers=headers, stream=stream)
        content = bytearray()
        try:
            if is_compressed:
                raise httpx.RemoteProtocolError("the answer is compressed", request=request)
            async for chunk in response.aiter_raw():
                content += chunk
                if len(content) > MAX_BYTES:
                    message = f"the answer has more than {MAX_BYTES} bytes"
                    raise httpx.RemoteProtocolError(message, request=request)
        finally:
            await response.aclose()
        return httpx.Response(
            response.status_code, headers=_content_type(response.headers), content=bytes(content)
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


class _BoundedStream(httpx.AsyncByteStream):
    """The events of a server as they come, up to a bound."""

    def __init__(self, response: httpx.Response, request: httpx.Request) -> None:
        self._response = response
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for chunk in self._response.aiter_raw():
            read += len(chunk)
            if read > MAX_STREAM_BYTES:
                message = f"the stream has more than {MAX_STREAM_BYTES} bytes"
                raise httpx.RemoteProtocolError(message, request=self._request)
            yield chunk

    async def aclose(self) -> None:
        await self._response.aclose()


class ProxiedTransport(httpx.AsyncBaseTransport):
    """Connects through the API server, by which an operator outside the cluster reaches the cells.

    It reads whole answers: open streams would use up the connections to the API server.
    """

    streams = False

    def __init__(self, api: ApiProxy) -> None:
        self._api = api

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request through the proxy of the Service."""
        service, _, namespace = request.url.host.removesuffix(".svc").rpartition(".")
        path = (
            f"/api/v1/namespaces/{namespace}/services/{service}:{request.url.port or 80}/proxy"
            f"{request.url.raw_path.decode()}"
        )
        sent = {k: v for k, v in request.headers.items() if k.lower() not in _DROPPED}
        try:
            status, headers, content = await self._api.proxy(
                request.method,
                path,
                headers=sent,
                body=await request.aread(),
                max_bytes=MAX_BYTES,
            )
        except errors.ClusterError as exc:
            raise httpx.ReadError(str(exc), request=request) from exc
        if status in _UNREACHED and _NOT_CONNECTED.search(content):
            message = content[:500].decode(errors="replace")
            raise httpx.ConnectError(message, request=request)
        return httpx.Response(status, headers=_content_type(headers), content=content)


class ZonedTimes(httpx.AsyncBaseTransport):
    """Reads times without a zone as UTC: some servers write them, and the SDK refuses them."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request, and add the time zone to times in its answer."""
        response = await self._inner.handle_async_request(request)
        if _is_stream(response):
            return response
        content = _TIME_WITHOUT_ZONE.sub(rb'\1Z"', await response.aread())
        await response.aclose()
        return httpx.Response(
            response.status_code, headers=_content_type(response.headers), content=content
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


def _is_stream(response: httpx.Response) -> bool:
    return str(response.headers.get("content-type", "")).startswith(_EVENTS)


def _content_type(headers: Mapping[str, str]) -> dict[str, str]:
    content_type = next((v for k, v in headers.items() if k.lower() == "content-type"), None)
    return {"Content-Type": content_type} if content_type is not None else {}
