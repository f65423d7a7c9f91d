"""Maps errors of the API server and of connections to the operator's errors."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
from kubernetes.aio.client import exceptions
from msgspec import DecodeError, json

from kais_operator import errors

CONNECTION = (aiohttp.ClientError, OSError, asyncio.TimeoutError)
"""Errors of connections: the base class of aiohttp's, those of sockets, and timeouts."""
CLIENT = (exceptions.OpenApiException,)
"""Errors of the Kubernetes library."""
_TRY_LATER = frozenset({401, 408, 429})
_STATUS_GONE = 410  # a continued list is too old, so it starts over
_STATUS_NOT_FOUND = 404
_STATUS_FORBIDDEN = 403
_STATUS_CONFLICT = 409
_FIRST_SERVER_ERROR = 500


def from_status(
    status: int, body: bytes, *, operation: str, is_write: bool = False
) -> errors.ClusterError:
    """Return the error for a status of 300 and above; the message is that of the Status object.

    A 5xx without a Status object is from a proxy whose API server does not answer.
    """
    answer = _status_object(body)
    message = f"{operation}: {answer.get('message') or f'the API server answered {status}'}"
    if is_write and status >= _FIRST_SERVER_ERROR and answer.get("kind") == "Status":
        return errors.WriteFailed(message)
    if status in _TRY_LATER or status >= _FIRST_SERVER_ERROR:
        return errors.ClusterUnavailable(message)
    return _refusal(status, answer)(message)


def _refusal(status: int, answer: dict[str, Any]) -> type[errors.ClusterError]:
    if status == _STATUS_CONFLICT and answer.get("reason") == "AlreadyExists":
        return errors.AlreadyExists
    if status == _STATUS_FORBIDDEN and _namespace_terminates(answer):
        return errors.NamespaceTerminating
    return {
        _STATUS_NOT_FOUND: errors.NotFound,
        _STATUS_FORBIDDEN: errors.Forbidden,
        _STATUS_CONFLICT: errors.Conflict,
        _STATUS_GONE: errors.Expired,
    }.get(status, errors.Invalid)


def translate(exc: BaseException, *, operation: str) -> errors.ClusterError:
    """Return our error for one that was raised instead of a response.

    An ApiException with a status is mapped by it. An error of the connection is always
    ClusterUnavailable, because it is unknown what the API server did.
    """
    if isinstance(exc, exceptions.ApiException) and exc.status:
        body = exc.body or b""
        return from_status(
            exc.status, body.encode() if isinstance(body, str) else body, operation=operation
        )
    if isinstance(exc, (exceptions.ApiException, *CONNECTION)):
        message = str(exc) or type(exc).__name__
        return errors.ClusterUnavailable(f"{operation}: no answer from the API server: {message}")
    if isinstance(exc, exceptions.OpenApiException):
        return errors.Invalid(f"{operation}: the client refuses the call: {exc}")
    raise TypeError(f"{type(exc).__name__} is no failure of the cluster") from exc


def _status_object(body: bytes) -> dict[str, Any]:
    try:
        answer = json.decode(body)
    except DecodeError:
        return {"message": body[:200].decode(errors="replace")} if body else {}
    return answer if isinstance(answer, dict) else {}


def _namespace_terminates(answer: dict[str, Any]) -> bool:
    causes = (answer.get("details") or {}).get("causes") or []
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
