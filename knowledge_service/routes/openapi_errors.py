"""What the OpenAPI says of refusals: each is a problem, with the codes of its status.

It is made of the errors themselves, so that a new one is described as soon as it exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from knowledge_client.models import Problem
from knowledge_service import errors
from knowledge_service.routes.problems import MEDIA_TYPE

_REF = "#/components/schemas/{model}"
# What the framework would say of a body that does not fit; ours is a problem like any other.
_FRAMEWORK = ("HTTPValidationError", "ValidationError")
# These answer without asking who calls, and never with a problem.
_HEALTH = "health"


def describe(document: dict[str, Any]) -> dict[str, Any]:
    """Add every refusal to every operation that may refuse; returns the same document."""
    schemas = document["components"]["schemas"]
    for name in _FRAMEWORK:
        schemas.pop(name, None)
    problem = Problem.model_json_schema(ref_template=_REF, mode="serialization")
    schemas |= problem.pop("$defs", {}) | {"Problem": problem}
    refusals = dict(_refusals())
    for path in document["paths"].values():
        for operation in path.values():
            if _HEALTH not in operation["tags"]:
                operation["responses"] |= refusals
    return document


def _refusals() -> Iterator[tuple[str, dict[str, Any]]]:
    content = {MEDIA_TYPE: {"schema": {"$ref": _REF.format(model="Problem")}}}
    codes: dict[int, list[str]] = {}
    for kind in _kinds(errors.ServiceError):
        codes.setdefault(kind.status, []).append(str(kind.code.value))
    for status in sorted(codes):
        yield (
            str(status),
            {"description": ", ".join(sorted(set(codes[status]))), "content": content},
        )


def _kinds(kind: type[errors.ServiceError]) -> Iterator[type[errors.ServiceError]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from _kinds(narrower)
