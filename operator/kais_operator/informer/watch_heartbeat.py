"""What the watch probe writes: it touches a Lease, whose event shows that watches are heard."""

from __future__ import annotations

from collections.abc import Callable

from kais import labels
from kais_operator import errors
from kais_operator.kubernetes import api_paths
from kais_operator.kubernetes.api_client import APPLY_PATCH, Connection
from kais_operator.planning.plan import ObjectRef
from kais_operator.ports import Clock

LEASE = f"{labels.LEASE}-watch"


class WatchProbe:
    """Stands beside the Cluster port, for what no controller needs."""

    def __init__(
        self,
        connection: Connection,
        *,
        namespace: str,
        leads: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self._connection = connection
        self._ref = ObjectRef("Lease", namespace, LEASE)
        self._leads = leads
        self._clock = clock

    async def touch(self) -> None:
        """Write the time into the Lease; raises NotLeading and ClusterError."""
        if not self._leads():
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
        await self._connection.call(
            "PATCH", api_paths.single(self._ref), query=query, body=body, content_type=APPLY_PATCH
        )
