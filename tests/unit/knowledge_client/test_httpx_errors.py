import inspect

import httpx
import pytest

from knowledge_client import errors, httpx_errors

EXCEPTIONS = [
    item
    for item in (getattr(httpx, name) for name in httpx.__all__)
    if inspect.isclass(item) and issubclass(item, Exception)
]
UNUSABLE = {"UnsupportedProtocol", "InvalidURL", "LocalProtocolError"}
UNREADABLE = {
    "HTTPError", "RequestError", "TransportError", "ProtocolError", "HTTPStatusError",
    "DecodingError", "TooManyRedirects", "CookieConflict", "StreamError", "StreamConsumed",
    "StreamClosed", "ResponseNotRead", "RequestNotRead",
}  # fmt: skip
ABSENT = {
    "TimeoutException", "ConnectTimeout", "ReadTimeout", "WriteTimeout", "PoolTimeout",
    "NetworkError", "ReadError", "WriteError", "ConnectError", "CloseError", "ProxyError",
    "RemoteProtocolError",
}  # fmt: skip


def made(kind):
    if issubclass(kind, httpx.HTTPStatusError):
        request = httpx.Request("GET", "http://k")
        return kind("text", request=request, response=httpx.Response(500, request=request))
    needs_text = "message" in inspect.signature(kind).parameters
    return kind("text") if needs_text else kind()


def test_every_exception_of_httpx_is_known_here():
    assert {kind.__name__ for kind in EXCEPTIONS} == UNUSABLE | UNREADABLE | ABSENT


@pytest.mark.parametrize("kind", EXCEPTIONS, ids=[kind.__name__ for kind in EXCEPTIONS])
def test_every_exception_of_httpx_is_caught(kind):
    assert issubclass(kind, httpx_errors.HTTPX_ERRORS)


@pytest.mark.parametrize("kind", EXCEPTIONS, ids=[kind.__name__ for kind in EXCEPTIONS])
def test_each_becomes_an_error_that_says_where_and_what_to_do(kind):
    error = httpx_errors.translate(made(kind), call="GET /v1/whoami", url="http://k:8000")

    expected = (
        errors.InvalidRequest
        if kind.__name__ in UNUSABLE
        else errors.KnowledgeUnavailable
        if kind.__name__ in ABSENT
        else errors.UnexpectedAnswer
    )
    assert type(error) is expected
    assert "GET /v1/whoami" in str(error)
    assert "http://k:8000" in str(error)
    assert "check that" in str(error) or "set KNOWLEDGE_SERVICE_URL" in str(error)
