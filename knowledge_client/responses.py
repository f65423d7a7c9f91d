"""Parses responses: status, headers and body to a model or an error. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, cast

import pydantic

from knowledge_client import errors, models

if TYPE_CHECKING:
    from knowledge_client.requests import Request, Response_co

_EXCERPT_CHARACTERS = 200  # characters of an unexpected body in a message; arbitrary


def parse(
    request: Request[Response_co], status: int, headers: Mapping[str, str], body: bytes
) -> Response_co:
    """Parse a response into the model of its request.

    Raises:
        KnowledgeError: The subclass that `errors.error_class` returns for an error response, and
            `UnexpectedAnswer` for a successful one whose body is not valid.
    """
    is_answer = HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES
    if not is_answer and not (request.is_probe and status == HTTPStatus.SERVICE_UNAVAILABLE):
        raise error_of(request, status, headers, body)
    if issubclass(request.response_type, type(None)):
        return cast("Response_co", None)
    model = cast("type[pydantic.BaseModel]", request.response_type)
    try:
        return cast("Response_co", model.model_validate_json(body))
    except pydantic.ValidationError as exc:
        raise errors.UnexpectedAnswer(
            f"{request.method} {request.path}: response {status} is not a {model.__name__}"
            f" ({_excerpt(body)}); check that the address is a kais knowledge service"
        ) from exc


def error_of(
    request: Request[Response_co], status: int, headers: Mapping[str, str], body: bytes
) -> errors.KnowledgeError:
    """Return the error for an error response; quotes the start of a body that is not a problem."""
    try:
        problem = models.Problem.model_validate_json(body)
    except pydantic.ValidationError:
        problem = None
    detail = _problem_text(problem) if problem else _excerpt(body)
    return errors.error_class(problem.code if problem else None, status)(
        f"{request.method} {request.path}: {status} {detail}",
        problem=problem,
        retry_after_s=retry_after_s(headers),
    )


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return `Retry-After` in seconds; its other form, a date, is ignored, as it needs a clock."""
    value = next((v for k, v in headers.items() if k.lower() == "retry-after"), "")
    return float(value) if value.strip().isdecimal() else None


def _problem_text(problem: models.Problem) -> str:
    wrong = "; ".join(f"{v.path}: {v.message}" for v in problem.violations)
    return f"{problem.code}: {problem.detail}" + (f" ({wrong})" if wrong else "")


def _excerpt(body: bytes) -> str:
    text = " ".join(body.decode("utf-8", "replace").split())
    return repr(text[:_EXCERPT_CHARACTERS]) if text else "without a body"
