"""httpx's exceptions as errors of this package: every one of them, a test enumerates the tree."""

from __future__ import annotations

import httpx

from knowledge_client import errors

ALL = (httpx.HTTPError, httpx.InvalidURL, httpx.CookieConflict, httpx.StreamError)
"""The roots of everything that httpx raises."""

_WRONG_ADDRESS = (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.LocalProtocolError)
_NOT_THERE = (
    httpx.TimeoutException,
    httpx.NetworkError,
    httpx.ProxyError,
    httpx.RemoteProtocolError,
)


def translate(failure: Exception, *, what: str, url: str) -> errors.KnowledgeError:
    """Name the error for what httpx raised during `what` (`GET /v1/whoami`) at `url`.

    The failure becomes the error's cause, for it is raised later, outside of any `except`.
    """
    error = _named(failure, what, url)
    error.__cause__ = failure
    return error


def _named(failure: Exception, what: str, url: str) -> errors.KnowledgeError:
    said = str(failure) or type(failure).__name__
    if isinstance(failure, _WRONG_ADDRESS):
        return errors.InvalidRequest(
            f"{what}: {url} is not usable ({said}); set KNOWLEDGE_SERVICE_URL to an http address"
        )
    if isinstance(failure, _NOT_THERE):
        return errors.KnowledgeUnavailable(
            f"{what}: no answer from {url} ({said}); check that the knowledge service runs there"
        )
    return errors.UnexpectedAnswer(
        f"{what}: {url} answered what this client cannot read ({said});"
        " check that the address is a kais knowledge service"
    )
