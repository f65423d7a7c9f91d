"""The errors of a request to a cell: which are expected, and what follows from each."""

from __future__ import annotations

import httpx
from a2a.client.errors import A2AClientError
from a2a.utils import errors as a2a_errors
from google.protobuf import json_format

from knowledge_client import errors as knowledge_errors

REQUEST_TIMEOUT_S = 5.0
"""How long a cell may take to answer a request, other than a message."""
FAILURES = (
    A2AClientError,
    a2a_errors.A2AError,
    httpx.HTTPError,
    json_format.Error,
    knowledge_errors.KnowledgeError,
    ValueError,
    TimeoutError,
)
REFUSALS = (
    a2a_errors.InvalidParamsError,
    a2a_errors.InvalidRequestError,
    a2a_errors.UnsupportedOperationError,
    a2a_errors.ContentTypeNotSupportedError,
    a2a_errors.ExtensionSupportRequiredError,
    a2a_errors.MethodNotFoundError,
    a2a_errors.VersionNotSupportedError,
)
"""Errors that the same message would get again, as would one whose ticket is invalid."""
_LINK_OF_HTTPX = "For more information check:"
"""The start of its second line, about an HTTP status."""
_WITHOUT_CONNECTION = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


def has_no_connection(exc: BaseException | None) -> bool:
    """Whether a request failed before any server could get it."""
    while exc is not None and not isinstance(exc, _WITHOUT_CONNECTION):
        exc = exc.__cause__
    return exc is not None


def is_timeout(exc: BaseException | None) -> bool:
    """Whether a request failed because no answer came in time."""
    timeouts = (TimeoutError, httpx.TimeoutException)
    while exc is not None and not isinstance(exc, timeouts):
        exc = exc.__cause__
    return exc is not None


def describe(exc: Exception) -> str:
    """Return an error's message in one line, bounded, for a condition or the log."""
    if isinstance(exc, TimeoutError):
        return f"no answer within {REQUEST_TIMEOUT_S:g} s"
    lines = [line for line in str(exc).splitlines() if not line.startswith(_LINK_OF_HTTPX)]
    return (" ".join(" ".join(lines).split()) or type(exc).__name__)[:500]
