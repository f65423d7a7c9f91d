"""The one mapping of the API server's and the connection's failures to the operator's errors."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
from kubernetes.aio.client import exceptions
from msgspec import DecodeError, json

from kais_operator import errors

CONNECTION = (aiohttp.ClientError, OSError, asyncio.TimeoutError)
"""What a connection raises. aiohttp's errors have one root; timeouts and sockets have these."""
CLIENT = (exceptions.OpenApiException,)
"""What the official client raises."""
_TRY_LATER = frozenset({401, 408, 429})
_GONE = 410  # a continued list is too old: it is read again from its start
_NOT_FOUND = 404
_FORBIDDEN = 403
_CONFLICT = 409


def from_status(status: int, body: bytes, *, what: str) -> errors.ClusterError:
    """Choose the error for an answer of 300 and above; its words come from the Status object."""
    answer = _status_object(body)
    text = f"{what}: {answer.get('message') or f'the API server answered {status}'}"
    if status in _TRY_LATER or status >= 500:  # noqa: PLR2004 (server errors)
        return errors.ClusterUnavailable(text)
    return _refusal(status, answer)(text)


def _refusal(status: int, answer: dict[str, Any]) -> type[errors.ClusterError]:
    if status == _CONFLICT and answer.get("reason") == "AlreadyExists":
        return errors.AlreadyExists
    if status == _FORBIDDEN and _namespace_terminates(answer):
        return errors.NamespaceTerminating
    return {
        _NOT_FOUND: errors.NotFound,
        _FORBIDDEN: errors.Forbidden,
        _CONFLICT: errors.Conflict,
        _GONE: errors.Expired,
    }.get(status, errors.Invalid)


def translate(exc: BaseException, *, what: str) -> errors.ClusterError:
    """Give our error for one that was raised instead of an answer.

    An ApiException that carries a status is judged by it; a connection's failure is always
    ClusterUnavailable, since nothing is known of what the API server did.
    """
    if isinstance(exc, exceptions.ApiException) and exc.status:
        body = exc.body or b""
        return from_status(exc.status, body.encode() if isinstance(body, str) else body, what=what)
    if isinstance(exc, (exceptions.ApiException, *CONNECTION)):
        words = str(exc) or type(exc).__name__
        return errors.ClusterUnavailable(f"{what}: no answer from the API server: {words}")
    if isinstance(exc, exceptions.OpenApiException):
        return errors.Invalid(f"{what}: the client refuses the call: {exc}")
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
