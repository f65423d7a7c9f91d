"""Client of the API server, on the transport and the credentials of `kubernetes.aio`.

Requests have a path and plain dicts. Neither the dynamic client, whose discovery kais does not
need, nor the typed models, which validate every call, are used.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any
from urllib import request
from urllib.parse import urlencode, urlsplit

import aiohttp
from kubernetes.aio import config
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import kube_config
from msgspec import DecodeError, json

from kais_operator import errors
from kais_operator.kubernetes import api_errors, api_paths, object_json

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_CONNECT_S = 10
_TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=_CONNECT_S)
_SOCKET_CLOSE = aiohttp.ClientWSTimeout(ws_close=1.0)
"""A server that keeps sending does not answer a close frame, so it is not waited for."""
_FIRST_ERROR_STATUS = 300
_PLURALS = frozenset(resource.plural for resource in api_paths.RESOURCES.values())
RequestKind = tuple[str, str]
"""Verb and resource of a request, such as `create` and `pods`."""
_NO_CONTENT: dict[str, Any] = {}
_logins: Any = config  # these functions have no annotations
_merger: Any = kube_config.KubeConfigMerger


class _Transport(RESTClientObject):
    """The library's connections, without its request method, which would encode bodies again."""

    def __init__(self, configuration: Configuration, *, is_bounded: bool) -> None:
        super().__init__(configuration)
        if not is_bounded:
            self.maxsize = 0  # of the connections; 0 is no bound

    def session(self) -> aiohttp.ClientSession:
        """Return the session; the first request opens it, when the event loop runs."""
        if self.pool_manager is None:
            self.pool_manager = self._create_pool_manager()
        session: aiohttp.ClientSession = self.pool_manager
        return session


class ApiClient:
    """An open client, created by `connect`; `close` it.

    Attributes:
        configuration: address and credentials; also read for the watches.
        requests: the number of requests sent, by verb and resource.
    """

    def __init__(self, configuration: Configuration, *, is_bounded: bool = True) -> None:
        self.configuration = configuration
        self._transport = _Transport(configuration, is_bounded=is_bounded)
        self._refresher: asyncio.Task[None] | None = None
        self.requests: Counter[RequestKind] = Counter()

    def clone(self, *, is_bounded: bool = True) -> ApiClient:
        """Return a client with the same credentials and connections of its own; close it too.

        It may be used in another event loop. Callers count its requests. Without a bound any number
        of connections may be open, as one watch for each kind and namespace needs.
        """
        return ApiClient(self.configuration, is_bounded=is_bounded)

    def refresh_with(self, loader: Any) -> None:
        """Refresh the credentials of a kubeconfig; certificates and tokens need no refresh."""
        self._refresher = asyncio.create_task(
            _logins.refresh_token(loader, client_configuration=self.configuration)
        )

    def _count_request(self, verb: str, path: str) -> None:
        self.requests[verb, api_paths.resource_of(path)] += 1

    async def close(self) -> None:
        """Close the connections and stop refreshing credentials."""
        if self._refresher is not None:
            self._refresher.cancel()
            await asyncio.gather(self._refresher, return_exceptions=True)
        await self._transport.close()

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
    ) -> dict[str, Any]:
        """Send one request and return the object in the response.

        Raises:
            ClusterError: mapped in `api_errors`.
        """
        operation = f"{method} {path}"
        self._count_request(_verb(method, path), path)
        async with self._send(
            method, _with_query(path, query), body, content_type=content_type, limits=_TIMEOUT
        ) as response:
            try:
                content = await response.read()
                answer, is_readable = (
                    object_json.decode_object(content) if content else (_NO_CONTENT, True)
                )
            except DecodeError as exc:
                raise errors.ClusterUnavailable(
                    f"{operation}: the answer is not JSON: {exc}"
                ) from exc
            except api_errors.CONNECTION as exc:
                raise api_errors.translate(exc, operation=operation) from exc
        if not is_readable:
            raise errors.TooDeep(f"{operation}: the object {object_json.TOO_DEEP}")
        return answer

    async def get_bytes(self, path: str, *, query: Mapping[str, str], accept: str) -> bytes:
        """Send one request for another representation, and return its bytes.

        Raises:
            ClusterError: mapped in `api_errors`.
        """
        self._count_request(_verb("GET", path), path)
        async with self._send(
            "GET", _with_query(path, query), None, limits=_TIMEOUT, accept=accept
        ) as response:
            try:
                content: bytes = await response.read()
            except api_errors.CONNECTION as exc:
                raise api_errors.translate(exc, operation=f"GET {path}") from exc
        return content

    async def proxy(
        self, method: str, path: str, *, headers: Mapping[str, str], body: bytes, max_bytes: int
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send one request to a Service through the API server; errors of the Service are answers.

        Raises:
            ClusterError: the API server did not answer, or the answer has more than `max_bytes`.
        """
        self._count_request("proxy", path)
        operation = f"{method} {path.partition('?')[0]}"
        settings: Any = self.configuration
        try:
            logins: Any = await settings.auth_settings()
            sent = {**headers, "Accept-Encoding": "identity"}
            sent |= {login["key"]: login["value"] for login in logins.values()}
            async with self._transport.session().request(
                method,
                settings.host + path,
                headers=sent,
                data=body or None,
                timeout=_TIMEOUT,
                allow_redirects=False,
                proxy=settings.proxy or None,
                proxy_headers=settings.proxy_headers,
                server_hostname=settings.tls_server_name or None,
            ) as response:
                content = bytearray()
                async for chunk in response.content.iter_any():
                    content += chunk
                    if len(content) > max_bytes:
                        raise errors.ClusterUnavailable(
                            f"{operation}: the answer has more than {max_bytes} bytes"
                        )
                return response.status, dict(response.headers), bytes(content)
        except (*api_errors.CONNECTION, *api_errors.CLIENT) as exc:
            raise api_errors.translate(exc, operation=operation) from exc

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str], idle_timeout_s: float | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send one request and yield the bytes of the response as they arrive.

        `idle_timeout_s` is how long the server may send nothing.

        Raises:
            ClusterError: mapped in `api_errors`.
        """
        limits = aiohttp.ClientTimeout(None, sock_connect=_CONNECT_S, sock_read=idle_timeout_s)
        async with self._send("GET", _with_query(path, query), None, limits=limits) as response:
            try:
                yield response.content.iter_any()
            except api_errors.CONNECTION as exc:
                raise api_errors.translate(exc, operation=f"GET {path}") from exc

    @contextlib.asynccontextmanager
    async def open_websocket(
        self, path: str, *, query: Sequence[tuple[str, str]], protocol: str
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """Open a WebSocket; a frame of more than 4 MiB closes it.

        Raises:
            ClusterError: It was refused or interrupted.
        """
        self._count_request("connect", path)
        operation = f"CONNECT {path}"
        settings: Any = self.configuration
        try:
            logins: Any = await settings.auth_settings()
            async with self._transport.session().ws_connect(
                f"{settings.host}{path}?{urlencode(query)}",
                protocols=(protocol,),
                timeout=_SOCKET_CLOSE,
                headers={login["key"]: login["value"] for login in logins.values()},
                proxy=settings.proxy or None,
                proxy_headers=settings.proxy_headers,
                server_hostname=settings.tls_server_name or None,
            ) as opened:
                yield opened
        except aiohttp.WSServerHandshakeError as exc:
            raise api_errors.from_status(exc.status, b"", operation=operation) from exc
        except (*api_errors.CONNECTION, *api_errors.CLIENT) as exc:
            raise api_errors.translate(exc, operation=operation) from exc

    @contextlib.asynccontextmanager
    async def _send(
        self,
        method: str,
        path: str,
        body: Any,
        *,
        limits: aiohttp.ClientTimeout,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request, and yield the response unless it is an error."""
        # Compression costs both sides more than it saves: responses are small or local.
        headers = {"Accept": accept, "Accept-Encoding": "identity", "Content-Type": content_type}
        operation = f"{method} {path.partition('?')[0]}"
        settings: Any = self.configuration
        try:
            logins: Any = await settings.auth_settings()
            headers |= {login["key"]: login["value"] for login in logins.values()}
            response = await self._transport.session().request(
                method,
                settings.host + path,
                headers=headers,
                data=None if body is None else json.encode(body),
                timeout=limits,
                proxy=settings.proxy or None,
                proxy_headers=settings.proxy_headers,
                server_hostname=settings.tls_server_name or None,
            )
        except (*api_errors.CONNECTION, *api_errors.CLIENT) as exc:
            raise api_errors.translate(exc, operation=operation) from exc
        async with response:
            if response.status >= _FIRST_ERROR_STATUS:
                raise api_errors.from_status(
                    response.status,
                    await _error_body(response),
                    operation=operation,
                    is_write=method != "GET",
                )
            yield response


async def _error_body(response: aiohttp.ClientResponse) -> bytes:
    """Read the body of an error; empty if the connection is interrupted."""
    try:
        return await response.read()
    except api_errors.CONNECTION:
        return b""


def _verb(method: str, path: str) -> str:
    """Return the verb of a request as the audit log has it, with status patches apart."""
    last = path.rpartition("/")[2]
    if method == "GET":
        return "list" if last in _PLURALS else "get"
    if method == "PATCH":
        return "patch status" if last == "status" else "patch"
    return {"POST": "create", "DELETE": "delete"}.get(method, method.lower())


def _with_query(path: str, query: Mapping[str, str] | None) -> str:
    return path + (f"?{urlencode(query)}" if query else "")


async def connect(kubeconfig: str | None) -> ApiClient:
    """Connect with a kubeconfig (paths joined by ":"), or with the pod's own token if None.

    Raises:
        ClusterUnavailable: There are no such credentials.
    """
    # Trusting the environment costs two threads and a search for .netrc at each request (measured).
    # Of the environment only the proxy matters; it is read once below.
    configuration = Configuration(client_session_kwargs={"trust_env": False})
    try:
        if kubeconfig is None:
            _logins.load_incluster_config(client_configuration=configuration)
            return _with_proxy(configuration)
        loader = await _logins.load_kube_config(
            kubeconfig,
            context=_current_context(kubeconfig),
            client_configuration=configuration,
        )
    except config.ConfigException as exc:
        login_source = kubeconfig or "the pod's own token"
        raise errors.ClusterUnavailable(
            f"no login to the cluster by {login_source}: {exc}"
        ) from exc
    api_client = _with_proxy(configuration)
    api_client.refresh_with(loader)
    return api_client


def _current_context(kubeconfig: str) -> str | None:
    """Return the current context of the first file that has one, as kubectl does.

    The library uses the last file, so two files would select another cluster than kubectl does.
    """
    for path in filter(None, kubeconfig.split(":")):
        merged = _merger(path).config
        context = merged.value.get("current-context") if merged is not None else None
        if context:
            return str(context)
    return None


def _with_proxy(configuration: Configuration) -> ApiClient:
    """Use the proxy of the environment for this address, unless the configuration has one."""
    settings: Any = configuration
    address = urlsplit(settings.host)
    if not settings.proxy and not request.proxy_bypass(address.hostname or ""):
        settings.proxy = request.getproxies().get(address.scheme)
    return ApiClient(configuration)
