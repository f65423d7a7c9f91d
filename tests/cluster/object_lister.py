"""Lists of objects straight from the API server.

Tests poll lists five times a second. A `kubectl` process takes some 50 ms of processor time for
each, on cores that the operator under test shares.
"""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

from kubernetes import config
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.discovery import EagerDiscoverer
from kubernetes.dynamic.resource import Resource
from urllib3.exceptions import HTTPError

from kais_cluster import errors


class ObjectLister:
    """Lists objects as the user of a kubeconfig, of a kind by any name that kubectl takes."""

    def __init__(self, kubeconfig: Path, cache: Path) -> None:
        """Remember whom to ask; `cache` is a file for what discovery finds, one a server."""
        self._kubeconfig = kubeconfig
        self._cache = cache

    @cached_property
    def _client(self) -> DynamicClient:
        client = config.new_client_from_config(str(self._kubeconfig))
        return DynamicClient(client, cache_file=str(self._cache), discoverer=EagerDiscoverer)

    @cached_property
    def _resources(self) -> dict[str, Resource]:
        resources: dict[str, Resource] = {}
        for resource in self._client.resources.search():
            if isinstance(resource, Resource) and resource.preferred:
                kind = resource.kind.lower()
                for name in (
                    resource.name,
                    resource.singular_name,
                    kind,
                    *(resource.short_names or ()),
                ):
                    resources.setdefault(name, resource)
        return resources

    def items(self, kind: str, namespace: str, *, labels: str = "") -> list[dict[str, Any]]:
        """List the objects of a kind in a namespace; raises CommandFailed, as kubectl does."""
        resource = self._resources[kind]
        try:
            response = resource.get(
                namespace=namespace if resource.namespaced else None,
                label_selector=labels,
                serialize=False,
            )
        except ApiException as exc:
            raise errors.CommandFailed(f"{kind}: {exc.status} {exc.reason}: {exc.body}") from exc
        except HTTPError as exc:
            raise errors.CommandFailed(f"{kind}: {exc}") from exc
        type_meta = {"apiVersion": resource.group_version, "kind": resource.kind}
        # The API server leaves the type out of the items of a list.
        return [type_meta | item for item in json.loads(response.data)["items"]]
