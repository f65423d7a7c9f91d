"""Port-forwards to pods, by kr8s, which loads for 0.3 s: imported on the first one only."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import httpx_ws
import kr8s
from kr8s.asyncio.objects import Pod

from kais_cli import errors
from kais_cli.cluster.api_client import ApiServer, path_in
from kais_cli.error_messages import kubernetes_api

FORWARD_ERRORS = (
    *kubernetes_api.API_ERRORS,
    kr8s.NotFoundError,
    kr8s.ConnectionClosedError,
    kr8s.APITimeoutError,
    kr8s.ExecError,
    kr8s.ServerError,
    httpx_ws.HTTPXWSException,
)
"""Everything that a port-forward can raise."""

_TRIES = 5
_UNAUTHORIZED = 401
_FORBIDDEN = 403


class WebSockets:
    """The part of a client of kr8s that its port-forwards use, with the login of all other calls.

    kr8s itself would read the kubeconfig again, in other ways than kubectl: it may choose another
    cluster or user, and does not support impersonation.
    """

    def __init__(self, api: ApiServer, client: httpx.AsyncClient) -> None:
        self.namespace = api.login.namespace  # of objects without one
        self._client = client
        self._extensions = api.extensions

    @asynccontextmanager
    async def open_websocket(
        self, *, version: str, namespace: str, url: str, params: dict[str, str]
    ) -> AsyncIterator[httpx_ws.AsyncWebSocketSession]:
        """Open a WebSocket to the URL of a built-in resource, such as `pods/x/portforward`."""
        path = path_in(version, namespace, url.split("/"))
        socket: httpx_ws.AsyncWebSocketSession
        async with httpx_ws.aconnect_ws(
            path, self._client, params=params, extensions=self._extensions
        ) as socket:
            yield socket


@asynccontextmanager
async def forward(api: ApiServer, namespace: str, pod: str, port: int) -> AsyncIterator[int]:
    """Forward a local port to a port of a pod; yield the local one.

    Tries the connection once first, because kr8s would retry a refused one forever.

    Raises:
        UsageError: The namespace or the pod is no name; kr8s would not check it.
    """
    path_in("v1", namespace, ("pods", pod))
    try:
        await _connect(api, namespace, pod, port)
    except httpx_ws.WebSocketUpgradeError as exc:
        if exc.response.status_code != _UNAUTHORIZED:
            raise
        api.renew_login()
        await _connect(api, namespace, pod, port)
    body = {"metadata": {"name": pod, "namespace": namespace}}
    async with api.open_client() as client:
        sockets: Any = WebSockets(api, client)  # Pod declares the client of kr8s
        forwarding, local = await open_forward(
            lambda: Pod(body, api=sockets).portforward(port, local_port="auto")
        )
        try:
            yield local
        finally:
            await forwarding.__aexit__(None, None, None)


async def _connect(api: ApiServer, namespace: str, pod: str, port: int) -> None:
    """Open a connection to a port of a pod, and close it."""
    url, params = f"pods/{pod}/portforward", {"ports": str(port)}
    async with (
        api.open_client() as client,
        WebSockets(api, client).open_websocket(
            version="v1", namespace=namespace, url=url, params=params
        ),
    ):
        pass


async def open_forward(create: Callable[[], Any]) -> tuple[Any, int]:
    """Open a port-forward that `create` returns, and return it with its local port.

    kr8s looks for a free port before it binds it, so another process may take the port first.
    """
    for _ in range(_TRIES - 1):
        forwarding = create()
        try:
            return forwarding, int(await forwarding.__aenter__())
        except OSError as exc:
            if exc.errno != errno.EADDRINUSE:
                raise
    forwarding = create()
    return forwarding, int(await forwarding.__aenter__())


def translate(failure: Exception, operation: str) -> errors.CliError:
    """Describe the failure of a port-forward, and the next step."""
    if isinstance(failure, kr8s.ServerError):
        status = failure.response.status_code if failure.response is not None else 0
        return kubernetes_api.from_status(status, operation) or errors.Refused(
            f"{operation}: {failure}"
        )
    if isinstance(failure, httpx_ws.WebSocketUpgradeError):
        return _from_upgrade_failure(failure.response.status_code, operation)
    if isinstance(failure, kr8s.NotFoundError):
        return errors.Refused(f"{operation}: {failure}")
    return kubernetes_api.translate(failure, operation)


def _from_upgrade_failure(status: int, operation: str) -> errors.CliError:
    """Explain why the API server refused a WebSocket; the response body was not read."""
    if status == _FORBIDDEN:
        return errors.Refused(
            f"{operation}: forbidden; it requires the verbs get and create on pods/portforward,"
            " see `kais doctor`"
        )
    return kubernetes_api.from_status(status, operation) or errors.Refused(
        f"{operation}: the API server answers {status}"
    )
