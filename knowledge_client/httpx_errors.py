"""Translates the exceptions of httpx to errors of this package. A test lists all of them."""

from __future__ import annotations

import httpx

from knowledge_client import errors

HTTPX_ERRORS = (httpx.HTTPError, httpx.InvalidURL, httpx.CookieConflict, httpx.StreamError)
"""The base classes of everything that httpx raises."""

_WRONG_ADDRESS = (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.LocalProtocolError)
_UNREACHABLE = (
    httpx.TimeoutException,
    httpx.NetworkError,
    httpx.ProxyError,
    httpx.RemoteProtocolError,
)


def translate(failure: Exception, *, call: str, url: str) -> errors.KnowledgeError:
    """Return the error for an exception of httpx, from a `call` such as `GET /v1/whoami`.

    The exception becomes the cause of the error, because the error is raised later, outside of any
    `except`.
    """
    error = _error_for(failure, call, url)
    error.__cause__ = failure
    return error


def _error_for(failure: Exception, call: str, url: str) -> errors.KnowledgeError:
    detail = str(failure) or type(failure).__name__
    if isinstance(failure, _WRONG_ADDRESS):
        return errors.InvalidRequest(
            f"{call}: {url} is not usable ({detail}); set KNOWLEDGE_SERVICE_URL to an http address"
        )
    if isinstance(failure, _UNREACHABLE):
        return errors.KnowledgeUnavailable(
            f"{call}: no answer from {url} ({detail}); check that the knowledge service runs there"
        )
    return errors.UnexpectedAnswer(
        f"{call}: cannot read the response of {url} ({detail});"
        " check that the address is a kais knowledge service"
    )
