"""The last write of a pass: status, and only when it says something new."""

from __future__ import annotations

from kais_operator.planning.plan import Body
from kais_operator.ports import Cluster


async def write(cluster: Cluster, read: Body, status: Body | None) -> Body | None:
    """Apply `status` to the object read, if it differs from what was read.

    Returns:
        The object as written; None when there was nothing to write.

    Raises:
        Conflict: the object was deleted and made anew since.
        ClusterError: the write was refused or not answered.
    """
    # Python's 1 equals 1.0, which the API server stores as 1: what is read back is equal.
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
