"""An httpx transport over aiohttp, the HTTP library of the rest of the operator.

The transport of httpx takes three times the processor time for a small request, and each instance
needs three. Errors are mapped to those of httpx, so the client handles them as usual.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from urllib import request as environment
from urllib.parse import urlsplit

import aiohttp
import httpx
from yarl import URL

from kais import trace_context
from kais_operator import trace_scope

_TRANSPORT_HEADERS = frozenset({b"host", b"content-length", b"connection", b"accept-encoding"})
"""Headers that aiohttp writes itself; responses are small and uncompressed."""
KEEPALIVE_S = 3.0
"""Idle connections are closed after this time; the service closes them after 5 s."""


class AiohttpTransport(httpx.AsyncBaseTransport):
    """Sends requests to one address, through the proxy of the environment if there is one."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._proxy: str | None = None
        if not environment.proxy_bypass(address.hostname or ""):
            self._proxy = environment.getproxies().get(address.scheme)
        self._is_secure = address.scheme == "https"
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request and read the whole response."""
        limits = request.extensions.get("timeout", {})
        headers = [
            (k.decode(), v.decode())
            for k, v in request.headers.raw
            if k.lower() not in _TRANSPORT_HEADERS
        ]
        traceparent = trace_scope.current()
        if traceparent is not None:
            headers.append((trace_context.HEADER, traceparent))
        with _map_errors(request):
            async with self._open_session().request(
                request.method,
                URL(str(request.url), encoded=True),
                headers=[*headers, ("Accept-Encoding", "identity")],
                data=await request.aread() or None,
                allow_redirects=False,
                proxy=self._proxy,
                timeout=aiohttp.ClientTimeout(
                    connect=limits.get("connect"), sock_read=limits.get("read")
                ),
            ) as answer:
                content = await answer.read()
                return httpx.Response(
                    answer.status, headers=list(answer.raw_headers), content=content
                )

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def _open_session(self) -> aiohttp.ClientSession:
        """Return the session; the first request opens it, when the event loop runs."""
        if self._session is None:
            secured = httpx.create_ssl_context() if self._is_secure else True
            connector = aiohttp.TCPConnector(ssl=secured, keepalive_timeout=KEEPALIVE_S)
            self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False)
        return self._session


@contextlib.contextmanager
def _map_errors(request: httpx.Request) -> Iterator[None]:
    """Map the errors of aiohttp to those of httpx."""
    try:
        yield
    except aiohttp.ConnectionTimeoutError as exc:
        raise httpx.ConnectTimeout(_error_message(exc), request=request) from exc
    except TimeoutError as exc:
        raise httpx.ReadTimeout(_error_message(exc), request=request) from exc
    except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as exc:
        raise httpx.UnsupportedProtocol(_error_message(exc), request=request) from exc
    except aiohttp.ClientConnectorError as exc:
        raise httpx.ConnectError(_error_message(exc), request=request) from exc
    except (aiohttp.ClientError, OSError) as exc:
        raise httpx.RemoteProtocolError(_error_message(exc), request=request) from exc


def _error_message(exc: Exception) -> str:
    """Return the reason; for a refused connection only the system's message."""
    if isinstance(exc, aiohttp.ClientConnectorError):
        cause = exc.os_error
        if isinstance(cause, ConnectionError) and cause.errno:
            return os.strerror(cause.errno)
        return str(cause)
    return str(exc) or type(exc).__name__
