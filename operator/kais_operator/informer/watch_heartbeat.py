"""Writes a heartbeat into a Lease; its watch events prove that the watches are alive."""

from __future__ import annotations

from collections.abc import Callable

from kais import labels
from kais_operator import errors
from kais_operator.kubernetes import api_paths
from kais_operator.kubernetes.api_client import APPLY_PATCH, ApiClient
from kais_operator.planning.plan import ObjectRef
from kais_operator.ports import Clock

LEASE = f"{labels.LEASE}-watch"


class WatchHeartbeat:
    """Writes the heartbeat's Lease; no part of the Cluster port, as no controller needs it."""

    def __init__(
        self,
        api_client: ApiClient,
        *,
        namespace: str,
        is_leader: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self._api_client = api_client
        self._ref = ObjectRef("Lease", namespace, LEASE)
        self._is_leader = is_leader
        self._clock = clock

    async def write(self) -> None:
        """Write the current time into the Lease; raises NotLeading and ClusterError."""
        if not self._is_leader():
            raise errors.NotLeading(f"the Lease is lost; {self._ref} was not touched")
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": self._ref.name,
                "namespace": self._ref.namespace,
                "labels": {labels.MANAGED_BY: labels.MANAGER},
            },
            "spec": {"renewTime": self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")},
        }
        query = {"force": "true", "fieldManager": labels.MANAGER_CHILDREN}
        await self._api_client.call(
            "PATCH", api_paths.single(self._ref), query=query, body=body, content_type=APPLY_PATCH
        )
