"""The way of the store's client to the store, over the HTTP library that the rest of us uses.

httpx's own transport takes three times the processor time for a small request, and each use tells
the store three things. Errors are those of httpx, so the client's words for them stay.
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

_TRANSPORT_HEADERS = frozenset({b"host", b"content-length", b"connection", b"accept-encoding"})
"""Headers that the library underneath writes itself; answers are small and come uncompressed."""
KEEPALIVE_S = 3.0
"""So long an idle connection is kept. The store closes it after 5 s: what comes then is lost."""


class AiohttpTransport(httpx.AsyncBaseTransport):
    """Sends the client's requests to one address, through the environment's proxy if it has one."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._proxy: str | None = None
        if not environment.proxy_bypass(address.hostname or ""):
            self._proxy = environment.getproxies().get(address.scheme)
        self._is_secure = address.scheme == "https"
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request and read its whole answer."""
        limits = request.extensions.get("timeout", {})
        headers = [
            (k.decode(), v.decode())
            for k, v in request.headers.raw
            if k.lower() not in _TRANSPORT_HEADERS
        ]
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
        """Give the session, opened with the first request, when the event loop runs."""
        if self._session is None:
            secured = httpx.create_ssl_context() if self._is_secure else True
            connector = aiohttp.TCPConnector(ssl=secured, keepalive_timeout=KEEPALIVE_S)
            self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False)
        return self._session


@contextlib.contextmanager
def _map_errors(request: httpx.Request) -> Iterator[None]:
    """Name what aiohttp raises as httpx would."""
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
    """Say why; of a connection that was not made, only what the system says: the rest is known."""
    if isinstance(exc, aiohttp.ClientConnectorError):
        cause = exc.os_error
        if isinstance(cause, ConnectionError) and cause.errno:
            return os.strerror(cause.errno)
        return str(cause)
    return str(exc) or type(exc).__name__
