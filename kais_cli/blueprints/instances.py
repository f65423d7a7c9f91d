"""The manifest of a new BlueprintInstance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kais.resources import base


def manifest(
    namespace: str,
    blueprint: str,
    name: str,
    parameter_values: Mapping[str, Any],
    *,
    revision: int | None = None,
) -> dict[str, Any]:
    """Return an instance of a blueprint; `revision` pins it."""
    reference: dict[str, Any] = {"name": blueprint}
    if revision is not None:
        reference["revision"] = revision
    return {
        "apiVersion": base.API_VERSION,
        "kind": "BlueprintInstance",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"blueprintRef": reference, "parameters": dict(parameter_values)},
    }
