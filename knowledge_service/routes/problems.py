"""Every refusal as RFC 9457 `application/problem+json`; the one place that builds such a body."""

from __future__ import annotations

import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from knowledge_client.codes import Code
from knowledge_client.models import Problem, ProblemViolation
from knowledge_service.errors import InvalidBody, NotFound, ServiceError, TooLarge

_log = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"
_SHOWN = 50  # mistakes of one request; more than anybody mends at once
_NO_JSON = "json_invalid"


def install(app: FastAPI) -> None:
    """Answer every refusal as a problem; `middleware.Faults` answers the rest."""
    app.add_exception_handler(ServiceError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _unrouted)


def response(error: ServiceError) -> Response:
    """Return a refusal as a response."""
    headers = {"Retry-After": str(error.retry_after_s)} if error.retry_after_s else {}
    if error.code is Code.UNAUTHENTICATED:
        headers["WWW-Authenticate"] = 'Bearer realm="kais-knowledge"'
    return _answer(error.problem(), headers)


async def _refused(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, ServiceError)  # noqa: S101 - registered for it
    return refused(request.url.path, exc)


def refused(path: str, exc: ServiceError) -> Response:
    """Log what is not the caller's doing, and return the refusal as a response."""
    if exc.status >= ServiceError.status:
        # Not the caller's doing: who looks after the service must find it in the log.
        fields = {"path": path, "code": exc.code, "why": exc.detail}
        cause = exc.__cause__
        fields |= {"cause": f"{type(cause).__name__}: {cause}"} if cause else {}
        _log.warning("request refused", extra={"fields": fields})
    return response(exc)


async def _invalid(_: Request, exc: Exception) -> Response:
    assert isinstance(exc, RequestValidationError)  # noqa: S101 - registered for it
    violations = tuple(
        ProblemViolation(
            path=".".join(str(part) for part in error["loc"] if part != "body"),
            message=str(error["msg"]),
        )
        for error in exc.errors()[:_SHOWN]
        if error["type"] != _NO_JSON
    )
    said = [error["ctx"]["error"] for error in exc.errors() if error["type"] == _NO_JSON]
    if said:
        return response(InvalidBody(f"the body is no JSON: {said[0]}"))
    return response(InvalidBody("the request is not what this route takes", violations))


async def _unrouted(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)  # noqa: S101 - registered for it
    if exc.status_code == NotFound.status:
        return response(NotFound(f"no route {request.url.path}; see /openapi.json"))
    if exc.status_code == TooLarge.status:
        return response(TooLarge(str(exc.detail)))
    problem = Problem(
        title=str(exc.detail),
        status=exc.status_code,
        code=Code.INVALID_BODY,
        detail=f"{request.method} {request.url.path}: {exc.detail}",
    )
    return _answer(problem, dict(exc.headers or {}))


def fault(path: str, exc: Exception) -> Response:
    """Log a fault of ours, and return an answer that says nothing of it."""
    _log.error("request failed", exc_info=exc, extra={"fields": {"path": path}})
    return response(ServiceError("something is wrong in the service; its log says what"))


def _answer(problem: Problem, headers: dict[str, str]) -> Response:
    return Response(
        problem.model_dump_json(),
        status_code=problem.status,
        headers=headers,
        media_type=MEDIA_TYPE,
    )
