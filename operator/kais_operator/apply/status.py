"""Writes the status at the end of a reconcile, if it has changed."""

from __future__ import annotations

from kais_operator.planning.plan import Body
from kais_operator.ports import Cluster


async def write(cluster: Cluster, read: Body, status: Body | None) -> Body | None:
    """Apply `status` to an object, if it differs from the status that was read.

    Returns:
        The object as written; None if there was nothing to write.

    Raises:
        Conflict: the object was deleted and created again.
        ClusterError: the write failed.
    """
    # The API server stores 1.0 as 1. They are equal in Python, so this causes no second write.
    if status is None or status == (read.get("status") or {}):
        return None
    metadata = read["metadata"]
    return await cluster.apply_status(
        {
            "apiVersion": read["apiVersion"],
            "kind": read["kind"],
            "metadata": {key: metadata[key] for key in ("name", "namespace", "uid")},
            "status": status,
        }
    )
