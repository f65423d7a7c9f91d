"""The names of what the operator keeps for a store that is away."""

from __future__ import annotations

from kais_operator.controllers.outbox.decide import outbox


def kept_as(run_id: str, *, namespace: str = "demo") -> str:
    """Name the ConfigMap with the calls of a run of that namespace."""
    return outbox.name_of(outbox.key_of(namespace, run_id))
