"""The ServiceAccount by which people of a realm reach its knowledge.

The operator makes it in every realm, and the CLI makes it where the operator has not been yet: it
must be the same account, whoever was first.
"""

from __future__ import annotations

from typing import Any

from kais import labels


def realm_account(namespace: str) -> dict[str, Any]:
    """Make the body; it mounts no token, since only TokenRequests are asked of it."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {
            "name": labels.USER_ACCOUNT,
            "namespace": namespace,
            "labels": {labels.MANAGED_BY: labels.MANAGER},
        },
        "automountServiceAccountToken": False,
    }
