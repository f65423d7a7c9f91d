"""What FastAPI does not know for the OpenAPI document: the errors, and the token of the caller.

Error responses are problems, with the codes of each status. They are generated from the classes of
errors, so a new class is documented at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from knowledge_client.models import Problem
from knowledge_service import errors
from knowledge_service.routes.problems import MEDIA_TYPE

_REF_TEMPLATE = "#/components/schemas/{model}"
# FastAPI's own schemas of validation errors; ours are problems like all others.
_FRAMEWORK_SCHEMAS = ("HTTPValidationError", "ValidationError")
# These routes need no authentication and never answer with a problem.
_HEALTH_TAG = "health"


_TOKEN = {
    "type": "http",
    "scheme": "bearer",
    "description": "a token of a ServiceAccount for the audience kais-knowledge, or one of the"
    " service's token file; none is needed with --auth none",
}


def add_authentication(document: dict[str, Any]) -> dict[str, Any]:
    """Say which operations need a token; returns the same document."""
    document["components"]["securitySchemes"] = {"token": _TOKEN}
    for path in document["paths"].values():
        for operation in path.values():
            operation["security"] = [] if _HEALTH_TAG in operation["tags"] else [{"token": []}]
    return document


def add_error_responses(document: dict[str, Any]) -> dict[str, Any]:
    """Add the error responses to every operation; returns the same document."""
    schemas = document["components"]["schemas"]
    for name in _FRAMEWORK_SCHEMAS:
        schemas.pop(name, None)
    problem = Problem.model_json_schema(ref_template=_REF_TEMPLATE, mode="serialization")
    schemas |= problem.pop("$defs", {}) | {"Problem": problem}
    responses = dict(_error_responses())
    for path in document["paths"].values():
        for operation in path.values():
            if _HEALTH_TAG not in operation["tags"]:
                operation["responses"] |= responses
    return document


def _error_responses() -> Iterator[tuple[str, dict[str, Any]]]:
    content = {MEDIA_TYPE: {"schema": {"$ref": _REF_TEMPLATE.format(model="Problem")}}}
    codes: dict[int, list[str]] = {}
    for error_class in _error_classes(errors.ServiceError):
        codes.setdefault(error_class.status, []).append(str(error_class.code.value))
    for status in sorted(codes):
        yield (
            str(status),
            {"description": ", ".join(sorted(set(codes[status]))), "content": content},
        )


def _error_classes(error_class: type[errors.ServiceError]) -> Iterator[type[errors.ServiceError]]:
    yield error_class
    for subclass in error_class.__subclasses__():
        yield from _error_classes(subclass)
