"""One connection to the API server, on the transport and the logins of `kubernetes.aio`.

Requests go by path with plain dicts: neither the dynamic client, whose discovery kais does not
need, nor the typed models, which validate every call, are in the way.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any
from urllib import request
from urllib.parse import urlencode, urlsplit

import aiohttp
from kubernetes.aio import config
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject

from kais_operator import errors
from kais_operator.adapters import cluster_failures

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=10)
_FIRST_REFUSAL = 300
_NO_CONTENT: dict[str, Any] = {}
_logins: Any = config  # these functions of the library have no annotations


class Connection:
    """An open connection; `close` it. Made by `connect`.

    Attributes:
        configuration: address and login; `logins` reads it for the watches.
        requests: how many were sent.
    """

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self._rest: Any = RESTClientObject(configuration)
        self._refresher: asyncio.Task[None] | None = None
        self.requests = 0

    def refresh_with(self, loader: Any) -> None:
        """Keep the login of a kubeconfig fresh; logins by certificate or token need nothing."""
        self._refresher = asyncio.create_task(
            _logins.refresh_token(loader, client_configuration=self.configuration)
        )

    async def close(self) -> None:
        """Close sockets and end the refreshing of the login."""
        if self._refresher is not None:
            self._refresher.cancel()
            await asyncio.gather(self._refresher, return_exceptions=True)
        await self._rest.close()

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
    ) -> dict[str, Any]:
        """Send one request and give the answer's object.

        Raises:
            ClusterError: the mapping is that of `cluster_failures`.
        """
        what = f"{method} {path}"
        self.requests += 1
        try:
            status, content = await self._send(
                method, path + (f"?{urlencode(query)}" if query else ""), body, content_type
            )
        except (*cluster_failures.CONNECTION, *cluster_failures.CLIENT) as exc:
            raise cluster_failures.translate(exc, what=what) from exc
        if status >= _FIRST_REFUSAL:
            raise cluster_failures.from_status(status, content, what=what)
        answer: dict[str, Any] = json.loads(content) if content else _NO_CONTENT
        return answer

    async def _send(
        self, method: str, path: str, body: Any, content_type: str
    ) -> tuple[int, bytes]:
        headers = {"Accept": JSON, "Content-Type": content_type}
        logins: Any = await self.configuration.auth_settings()
        for login in logins.values():
            headers[login["key"]] = login["value"]
        response = await self._rest.request(
            method,
            self.configuration.host + path,
            headers=headers,
            body=body,
            _request_timeout=_TIMEOUT,
        )
        return response.status, await response.read()


async def connect(kubeconfig: str | None) -> Connection:
    """Log in by a kubeconfig (paths joined by ":"), or by the pod's own token when None.

    Raises:
        ClusterUnavailable: There is no such login.
    """
    # Trusting the environment costs two threads and a look for .netrc at each request (measured):
    # what matters of it, the proxy, is read once below.
    configuration = Configuration(client_session_kwargs={"trust_env": False})
    try:
        if kubeconfig is None:
            _logins.load_incluster_config(client_configuration=configuration)
            return _through_proxy(configuration)
        loader = await _logins.load_kube_config(kubeconfig, client_configuration=configuration)
    except config.ConfigException as exc:
        where = kubeconfig or "the pod's own token"
        raise errors.ClusterUnavailable(f"no login to the cluster by {where}: {exc}") from exc
    connection = _through_proxy(configuration)
    connection.refresh_with(loader)
    return connection


def _through_proxy(configuration: Configuration) -> Connection:
    """Use the environment's proxy for this address, if the login names none."""
    settings: Any = configuration
    address = urlsplit(settings.host)
    if not settings.proxy and not request.proxy_bypass(address.hostname or ""):
        settings.proxy = request.getproxies().get(address.scheme)
    return Connection(configuration)
