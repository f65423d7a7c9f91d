"""The names that a cluster and a kubeconfig have, for completion."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kais_cli import errors
from kais_cli.cluster import kubeconfig

if TYPE_CHECKING:
    from kais_cli.cluster.kubeconfig_login import Login

_TIMEOUT_S = 2.0  # a shell waits for the answer
_GROUP_VERSION = "kais.io/v1"


class ClusterSources:
    """Reads lists from the cluster; a list that cannot be read is empty."""

    def __init__(self, kubeconfig_path: str | None, context: str | None = None) -> None:
        self._context = context
        self._kubeconfig_path = kubeconfig_path

    @cached_property
    def _kubeconfig(self) -> str | None:
        return self._kubeconfig_path or _of_local_cluster()

    def objects(self, plural: str, namespace: str | None) -> Sequence[Mapping[str, Any]]:
        """Return the objects of a resource, in the namespace of the context if it is None."""
        return self._list(_GROUP_VERSION, plural, namespace=namespace, is_namespaced=True)

    def namespaces(self) -> Sequence[str]:
        """Return the names of the namespaces."""
        return [body["metadata"]["name"] for body in self._list("v1", "namespaces")]

    def contexts(self) -> Sequence[str]:
        """Return the names of the contexts of the kubeconfig."""
        from kais_cli.cluster import kubeconfig_login  # noqa: PLC0415 (loads yaml)

        try:
            return kubeconfig_login.contexts(self._kubeconfig)
        except errors.CliError:
            return []

    def _list(
        self,
        version: str,
        plural: str,
        *,
        namespace: str | None = None,
        is_namespaced: bool = False,
    ) -> Sequence[Mapping[str, Any]]:
        from urllib.parse import quote  # noqa: PLC0415 (only to ask a cluster)

        from kais_cli.cluster import kubeconfig_login  # noqa: PLC0415 (loads yaml)

        try:
            login = kubeconfig_login.read(self._kubeconfig, context=self._context, may_prompt=False)
            quoted = quote(namespace or login.namespace, safe="")
            namespace_path = f"/namespaces/{quoted}" if is_namespaced else ""
            base = "/api" if version == "v1" else "/apis"
            items: list[Mapping[str, Any]] = _get(
                login, f"{base}/{version}{namespace_path}/{plural}"
            )
        except (errors.CliError, OSError, ValueError, KeyError, RecursionError):
            return []
        return items


def _get(login: Login, path: str) -> list[Mapping[str, Any]]:
    """Return the items of a list. Use urllib if possible: loading httpx takes half of the time."""
    import urllib.request  # noqa: PLC0415 (only to ask a cluster)

    if login.proxy or login.tls_server_name or login.impersonation:
        return _get_by_httpx(login, path)
    handler = urllib.request.HTTPSHandler(context=login.verification)
    request = urllib.request.Request(  # noqa: S310 (as named)
        login.server + path, headers=dict(login.headers)
    )
    with urllib.request.build_opener(handler).open(request, timeout=_TIMEOUT_S) as response:
        items: list[Mapping[str, Any]] = json.load(response)["items"]
    return items


def _get_by_httpx(login: Login, path: str) -> list[Mapping[str, Any]]:
    import httpx  # noqa: PLC0415 (see above)

    extensions = {"sni_hostname": login.tls_server_name} if login.tls_server_name else {}
    try:
        with httpx.Client(
            headers=httpx.Headers(login.headers, encoding="utf-8"),
            verify=login.verification,
            proxy=login.proxy,
            timeout=_TIMEOUT_S,
        ) as client:
            response = client.get(login.server + path, extensions=extensions).raise_for_status()
            items: list[Mapping[str, Any]] = response.json()["items"]
    except (httpx.HTTPError, httpx.InvalidURL) as exc:
        raise OSError(str(exc)) from exc
    return items


def _of_local_cluster() -> str | None:
    if kubeconfig.has_default():
        return None
    from kais_cluster import operations  # noqa: PLC0415 (only without a kubeconfig)

    return kubeconfig.of_local_cluster(operations, lambda text: None)
