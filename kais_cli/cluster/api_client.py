"""Calls of one API server over HTTP.

kr8s would bring the same calls, but loads for 0.3 s and reads kubeconfigs in its own way; only
port-forwards use it, over the client of this module.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx

from kais_cli import errors
from kais_cli.cluster.kubeconfig_login import Login

_UNAUTHORIZED = 401
_TIMEOUT_S = 30.0


class ResponseError(Exception):
    """The API server answered with an error.

    Attributes:
        status_code: The status of the response.
        body: The `Status` object of the response; None if it has another form.
    """

    def __init__(self, message: str, status_code: int, body: dict[str, Any] | None) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.body = body


class TooDeep(ResponseError):
    """The answer has an object that nests too deeply to be read.

    The API server accepts 10,000 levels; decoders recurse, and end before 1,000.
    """

    def __init__(self, status_code: int) -> None:
        super().__init__(
            "an object nests too deeply to be read; make it shallower or delete it: the log of the"
            " operator names it",
            status_code,
            None,
        )


class ApiServer:
    """One API server, reached with a login that is read again when the server rejects it."""

    def __init__(self, log_in: Callable[[], Login]) -> None:
        self._log_in = log_in
        self.login = log_in()
        self._client: httpx.AsyncClient | None = None
        self._in_use: Counter[httpx.AsyncClient] = Counter()

    @asynccontextmanager
    async def call_api(
        self,
        method: str,
        *,
        version: str,
        path: Sequence[str],
        namespace: str | None = None,
        stream: bool = False,
        **options: Any,
    ) -> AsyncIterator[httpx.Response]:
        """Send a request; with `stream`, the body of the response is not read yet.

        `path` contains the parts of the path after the namespace, such as `missions` and a name.

        Raises:
            ResponseError: The server answered with an error.
            UsageError: A part of the path is no name.
            httpx.HTTPError: It did not answer.
        """
        url = path_in(version, namespace, path)
        async with self._answer(method, url, options, stream=stream) as response:
            if response.is_error:
                await response.aread()
                raise _error(response)
            yield response

    async def version(self) -> str:
        """Return the version of the server, such as `v1.36.3`."""
        async with self._answer("GET", "/version", {}, stream=False) as response:
            if response.is_error:
                raise _error(response)
            return str(read_object(response).get("gitVersion", "unknown"))

    def open_client(self) -> httpx.AsyncClient:
        """Return a new client with the address, the headers and the TLS context of the login."""
        login = self.login
        return httpx.AsyncClient(
            base_url=login.server,
            headers=httpx.Headers(
                [
                    ("User-Agent", "kais-cli"),
                    ("Content-Type", "application/json"),
                    *login.headers,
                ],
                encoding="utf-8",
            ),
            verify=login.verification,
            proxy=login.proxy,
            timeout=_TIMEOUT_S,
            follow_redirects=True,
        )

    @property
    def extensions(self) -> dict[str, str]:
        """The extensions of every request: the name that the server's certificate must have."""
        name = self.login.tls_server_name
        return {"sni_hostname": name} if name else {}

    def renew_login(self) -> None:
        """Read the login again, because a short-lived one may have expired."""
        self.login = self._log_in()

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    @asynccontextmanager
    async def _answer(
        self, method: str, path: str, options: dict[str, Any], *, stream: bool
    ) -> AsyncIterator[httpx.Response]:
        """Send a request; send it again with a new login if the server rejects the login."""
        client = self._current_client()
        async with self._answer_to(client, method, path, options, stream=stream) as response:
            if response.status_code != _UNAUTHORIZED:
                yield response
                return
        await self._renew_client(client)
        client = self._current_client()
        async with self._answer_to(client, method, path, options, stream=stream) as response:
            yield response

    @asynccontextmanager
    async def _answer_to(
        self,
        client: httpx.AsyncClient,
        method: str,
        path: str,
        options: dict[str, Any],
        *,
        stream: bool,
    ) -> AsyncIterator[httpx.Response]:
        """Send a request; the client stays open until its last response is closed."""
        request_options = {"timeout": httpx.USE_CLIENT_DEFAULT} | options
        request = client.build_request(method, path, extensions=self.extensions, **request_options)
        self._in_use[client] += 1
        try:
            response = await client.send(request, stream=stream)
            try:
                yield response
            finally:
                await response.aclose()
        finally:
            self._in_use[client] -= 1
            await self._close_unused(client)

    def _current_client(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = self.open_client()
        return self._client

    async def _renew_client(self, rejected: httpx.AsyncClient) -> None:
        """Replace a client with a rejected login, unless another request has done it.

        Responses that it still reads, such as logs, go on.
        """
        if self._client is rejected:
            self._client = None
            self.renew_login()
        await self._close_unused(rejected)

    async def _close_unused(self, client: httpx.AsyncClient) -> None:
        if self._in_use[client] == 0:
            del self._in_use[client]
            if client is not self._client:
                await client.aclose()


def read_object(response: httpx.Response) -> dict[str, Any]:
    """Return the JSON object of a response.

    Raises:
        TooDeep: The object nests too deeply.
        ResponseError: The response has another body: probably no API server sent it.
    """
    body = _decoded(response)
    if isinstance(body, dict):
        return body
    raise ResponseError(
        f"{response.url.copy_with(userinfo=b'', query=None)} answers no JSON object;"
        " check that the kubeconfig names an API server",
        response.status_code,
        None,
    )


def path_in(version: str, namespace: str | None, path: Sequence[str]) -> str:
    """Return the path of a resource in a namespace, or in none, with its parts quoted.

    Raises:
        UsageError: The namespace or a part is no name.
    """
    base = f"/api/{version}" if version == "v1" else f"/apis/{version}"
    parts = path if namespace is None else ("namespaces", namespace, *path)
    return "/".join((base, *map(_quoted, parts)))


def _quoted(part: str) -> str:
    """Quote a part of a path; refuse what would make it the path of another resource.

    Without its last part, the path of an object is that of all objects, which a DELETE would
    delete. The API server decodes `%2F` before it splits a path.
    """
    if part in ("", ".", "..") or "/" in part or "%" in part:
        raise errors.UsageError(f"{part!r} is not the name of an object or of a namespace")
    return quote(part, safe="")


def decode(text: str | bytes, status_code: int) -> Any:
    """Return the value of a JSON text.

    Raises:
        TooDeep: The value nests too deeply.
        ValueError: The text is not JSON.
    """
    try:
        return json.loads(text)
    except RecursionError as exc:
        raise TooDeep(status_code) from exc


def _decoded(response: httpx.Response) -> Any:
    """Return the JSON value of a response; None if it has another body."""
    try:
        return decode(response.content, response.status_code)
    except ValueError:
        return None


def _error(response: httpx.Response) -> ResponseError:
    body = _decoded(response)
    if not isinstance(body, dict):
        return ResponseError(response.text.strip(), response.status_code, None)
    return ResponseError(str(body.get("message", "")), response.status_code, body)
