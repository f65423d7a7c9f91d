"""Errors as RFC 9457 `application/problem+json`; the only place that builds such a body."""

from __future__ import annotations

import logging

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from knowledge_client.error_codes import ErrorCode
from knowledge_client.models import Problem
from knowledge_service.errors import NotFound, ServiceError

_log = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"


def response_to(scope: Scope, exc: Exception) -> Response:
    """Return the response to a request that raised an exception."""
    if isinstance(exc, ServiceError):
        return _refusal_response(scope["path"], exc)
    if isinstance(exc, HTTPException):
        return _http_error_response(scope, exc)
    _log.error("request failed", exc_info=exc, extra={"fields": {"path": scope["path"]}})
    return problem_response(ServiceError("internal error; see the log of the service"))


def problem_response(error: ServiceError) -> Response:
    """Return an error as a response."""
    headers = {"Retry-After": str(error.retry_after_s)} if error.retry_after_s else {}
    if error.code is ErrorCode.UNAUTHENTICATED:
        headers["WWW-Authenticate"] = 'Bearer realm="kais-knowledge"'
    return _to_response(error.problem(), headers)


def _refusal_response(path: str, exc: ServiceError) -> Response:
    """Log an error of the service itself, and return it as a response."""
    log_refusal(path, exc)
    return problem_response(exc)


def log_refusal(path: str, exc: ServiceError) -> None:
    """Log an error that the caller did not cause, so that operators of the service see it."""
    if exc.status >= ServiceError.status:
        fields = {"path": path, "code": exc.code, "why": exc.detail}
        cause = exc.__cause__
        fields |= {"cause": f"{type(cause).__name__}: {cause}"} if cause else {}
        _log.warning("request refused", extra={"fields": fields})


def _http_error_response(scope: Scope, exc: HTTPException) -> Response:
    path = scope["path"]
    if exc.status_code == NotFound.status:
        return problem_response(NotFound(f"no route {path}; see /openapi.json"))
    problem = Problem(
        title=str(exc.detail),
        status=exc.status_code,
        code=ErrorCode.INVALID_BODY,
        detail=f"{scope['method']} {path}: {exc.detail}",
    )
    return _to_response(problem, dict(exc.headers or {}))


def _to_response(problem: Problem, headers: dict[str, str]) -> Response:
    return Response(
        problem.model_dump_json(),
        status_code=problem.status,
        headers=headers,
        media_type=MEDIA_TYPE,
    )
