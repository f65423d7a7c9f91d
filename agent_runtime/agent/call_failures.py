"""Classifies failed calls of the model: the failure class, the charge, and whether to retry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic_ai import exceptions

from agent_runtime.errors import AgentError, find_cause
from agent_runtime.mind import MindConfig
from kais.agent_results import FailureClass

_ERROR_CHARACTERS: Final = 300
_FORBIDDEN: Final = 403


@dataclass(frozen=True)
class FailedCall:
    """A failed call; `is_charged` if the provider may charge for it."""

    error: AgentError
    is_charged: bool
    may_retry: bool = False
    retry_after_s: float | None = None


_TRANSIENT = (
    exceptions.ModelRateLimitError,
    exceptions.ModelUnavailableError,
    exceptions.ModelServerError,
    exceptions.ModelConnectionError,
)
_PERMANENT: Final[tuple[tuple[type[Exception], FailureClass, str], ...]] = (
    (
        exceptions.ModelAuthenticationError,
        FailureClass.MODEL_UNAUTHORIZED,
        "does not accept the key",
    ),
    (
        exceptions.ModelNotFoundError,
        FailureClass.MODEL_REFUSED,
        "does not exist, or its address is wrong",
    ),
    (exceptions.ModelQuotaExceededError, FailureClass.MODEL_REFUSED, "has no quota left"),
    (
        exceptions.ModelContextWindowExceededError,
        FailureClass.CONTEXT_EXCEEDED,
        "cannot read this much text",
    ),
    (exceptions.ModelRequestRejectedError, FailureClass.MODEL_REFUSED, "refuses the request"),
    (exceptions.ContentFilterError, FailureClass.MODEL_REFUSED, "refuses to answer"),
    (exceptions.ModelHTTPError, FailureClass.MODEL_REFUSED, "refuses the request"),
)


def classify(error: Exception, mind: MindConfig) -> FailedCall:
    """Return what a failed call means; `error` is what the library raised."""
    cause = find_cause(error)
    if cause is not None:
        is_transient = cause.failure.reason is FailureClass.MODEL_UNAVAILABLE
        return FailedCall(cause, cause.is_charged, may_retry=is_transient)
    model_and_endpoint = (
        f"model {mind.model} at {mind.base_url or f'the endpoint of {mind.provider.value}'}"
    )
    if isinstance(error, TimeoutError):
        message = f"{model_and_endpoint} did not finish its answer in time"
        return _unavailable(message, is_charged=True)
    if isinstance(error, _TRANSIENT):
        message = f"{model_and_endpoint} cannot answer: {_detail(error)}"
        return _unavailable(message, is_charged=_is_charged(error), retry_after_s=error.retry_after)
    reason, text = _permanent(error)
    if _is_forbidden(error) and not _is_of_provider(error):
        secret = f" of the Secret {mind.secret}" if mind.secret else ""
        text = (
            "cannot be reached: HTTP 403 comes from a proxy, or from an endpoint with errors of "
            "another form; let the proxy allow the address, or check the key"
            f"{secret} and that it may use the model"
        )
        message = f"{model_and_endpoint} {text}: {_detail(error)}"
        return FailedCall(AgentError(reason, message), is_charged=_is_charged(error))
    if reason is FailureClass.MODEL_UNAUTHORIZED and mind.secret:
        text = f"{text} of the Secret {mind.secret}"
    if _is_forbidden(error):
        text += "; choose a model that the key may use, or request access"
    message = f"{model_and_endpoint} {text}: {_detail(error)}"
    return FailedCall(AgentError(reason, message), is_charged=_is_charged(error))


def _is_forbidden(error: Exception) -> bool:
    """Whether the provider accepts the key, but not for this model."""
    is_unauthorized = isinstance(error, exceptions.ModelAuthenticationError)
    is_403 = isinstance(error, exceptions.ModelHTTPError) and error.status_code == _FORBIDDEN
    return is_unauthorized and is_403


def _is_of_provider(error: Exception) -> bool:
    """Whether an error has the JSON form that providers use; a proxy answers with HTML."""
    body = error.body if isinstance(error, exceptions.ModelHTTPError) else None
    inner = body.get("error", body) if isinstance(body, Mapping) else None
    if not isinstance(inner, Mapping):
        return False
    return isinstance(inner.get("message"), str) and ("type" in inner or "code" in inner)


def _permanent(error: Exception) -> tuple[FailureClass, str]:
    if _is_forbidden(error):
        return FailureClass.MODEL_UNAUTHORIZED, "does not allow the key"
    for kinds, reason, text in _PERMANENT:
        if isinstance(error, kinds):
            return reason, text
    return FailureClass.BAD_ANSWER, "sends an answer that cannot be read"


def _unavailable(
    message: str, *, is_charged: bool, retry_after_s: float | None = None
) -> FailedCall:
    error = AgentError(FailureClass.MODEL_UNAVAILABLE, message)
    return FailedCall(error, is_charged, may_retry=True, retry_after_s=retry_after_s)


def _is_charged(error: Exception) -> bool:
    """Whether the provider may charge: not if it rejected the call or was never reached."""
    if isinstance(error, exceptions.ModelHTTPError):
        return error.in_stream
    if isinstance(error, exceptions.ModelConnectionError):
        return error.phase not in ("pool", "connect")
    return True


def _detail(error: Exception) -> str:
    """Return the provider's message, bounded and on one line."""
    if isinstance(error, exceptions.ModelHTTPError):
        return short(f"HTTP {error.status_code} {_body_message(error.body)}")
    cause = error.__cause__
    text = str(error) or type(error).__name__
    return short(f"{text} ({cause.__cause__})" if cause and cause.__cause__ else text)


def _body_message(body: object) -> str:
    if isinstance(body, Mapping):
        inner = body.get("error", body)
        body = inner.get("message", inner) if isinstance(inner, Mapping) else inner
    return str(body)


def short(text: str) -> str:
    """Return untrusted text on one line, bounded and without control characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= _ERROR_CHARACTERS else f"{line[:_ERROR_CHARACTERS]}…"
