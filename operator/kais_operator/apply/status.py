"""The last write of a pass: status, and only when it says something new."""

from __future__ import annotations

import json
from typing import Any

from kais_operator.decide.plan import Body
from kais_operator.ports import Cluster


async def write(cluster: Cluster, read: Body, status: Body | None) -> Body | None:
    """Apply `status` to the object read, if it differs from what was read.

    Returns:
        The object as written; None when there was nothing to write.

    Raises:
        Conflict: the object was deleted and made anew since.
        ClusterError: the write was refused or not answered.
    """
    if status is None or _canonical(status) == _canonical(read.get("status") or {}):
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


def _canonical(status: Body) -> str:
    return json.dumps(_plain(status), sort_keys=True, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Write 1.0 as 1: the API server stores it so, and what is read back shall be equal."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
