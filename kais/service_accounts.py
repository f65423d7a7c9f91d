"""The ServiceAccount with which users of a realm reach its knowledge.

The operator creates it in every realm, and the CLI creates it where the operator has not done so
yet. Both must create the same account, whichever is first.
"""

from __future__ import annotations

from typing import Any

from kais import labels

USER_PREFIX = "system:serviceaccount:"
"""The prefix of the user names of ServiceAccounts."""


def realm_account(namespace: str) -> dict[str, Any]:
    """Return the body of the account; it mounts no token: tokens come from TokenRequests."""
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
