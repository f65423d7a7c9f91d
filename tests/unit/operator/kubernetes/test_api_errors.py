"""Every failure of the client libraries has one of our errors."""

from __future__ import annotations

import inspect
import json

import aiohttp
import pytest
from kubernetes.aio.client import exceptions

from kais_operator import errors
from kais_operator.kubernetes import api_errors


def classes(module: object, root: type) -> list[type]:
    types = [c for _, c in inspect.getmembers(module, inspect.isclass) if issubclass(c, root)]
    return sorted(types, key=lambda c: c.__name__)


def instance_of(cls: type[BaseException]) -> BaseException:
    """Make one without its own constructor: only its class is judged."""
    error = cls.__new__(cls)
    error.args = ("it broke",)
    return error


@pytest.mark.parametrize("cls", classes(aiohttp, aiohttp.ClientError), ids=lambda c: c.__name__)
def test_every_error_of_aiohttp_means_no_answer(cls):
    assert issubclass(cls, api_errors.CONNECTION)


@pytest.mark.parametrize(
    "exc",
    [
        aiohttp.ClientConnectionError("refused"),
        aiohttp.ServerDisconnectedError(),
        aiohttp.ClientPayloadError("cut"),
        TimeoutError(),
        ConnectionResetError("reset"),
        OSError("no route"),
    ],
    ids=lambda e: type(e).__name__,
)
def test_a_broken_connection_is_unavailable(exc):
    error = api_errors.translate(exc, operation="GET /api")
    assert type(error) is errors.ClusterUnavailable
    assert str(error).startswith("GET /api: no answer from the API server: ")


@pytest.mark.parametrize(
    "cls", classes(exceptions, exceptions.OpenApiException), ids=lambda c: c.__name__
)
def test_every_error_of_the_official_client_is_mapped(cls):
    exc = instance_of(cls)
    exc.status, exc.body, exc.reason, exc.headers, exc.data = None, None, "", None, None
    expected = (
        errors.ClusterUnavailable if issubclass(cls, exceptions.ApiException) else errors.Invalid
    )
    assert type(api_errors.translate(exc, operation="GET /api")) is expected


def test_an_api_exception_with_a_status_is_judged_by_it():
    exc = exceptions.ApiException(status=404, reason="Not Found")
    assert type(api_errors.translate(exc, operation="GET /api")) is errors.NotFound


STATUS_CASES = {
    "a create that met a namesake": (409, {"reason": "AlreadyExists"}, errors.AlreadyExists),
    "a precondition that failed": (409, {"reason": "Conflict"}, errors.Conflict),
    "a continued list that is too old": (410, {"reason": "Expired"}, errors.Expired),
    "nothing of that name": (404, {"reason": "NotFound"}, errors.NotFound),
    "a right or a quota that is missing": (403, {"reason": "Forbidden"}, errors.Forbidden),
    "a namespace that goes away": (
        403,
        {"reason": "Forbidden", "details": {"causes": [{"reason": "NamespaceTerminating"}]}},
        errors.NamespaceTerminating,
    ),
    "a field that the schema refuses": (422, {"reason": "Invalid"}, errors.Invalid),
    "a body that is no object": (400, {"reason": "BadRequest"}, errors.Invalid),
    "a body that is too large": (413, {}, errors.Invalid),
    "a login that ran out": (401, {"reason": "Unauthorized"}, errors.ClusterUnavailable),
    "too many requests": (429, {}, errors.ClusterUnavailable),
    "a broken API server": (500, {}, errors.ClusterUnavailable),
    "a proxy without a server": (503, {}, errors.ClusterUnavailable),
}


@pytest.mark.parametrize(
    ("status", "answer", "expected"), STATUS_CASES.values(), ids=STATUS_CASES.keys()
)
def test_an_answers_status_has_one_error(status, answer, expected):
    body = json.dumps({"kind": "Status", "message": "the server's words", **answer}).encode()
    error = api_errors.from_status(status, body, operation="PATCH /x")
    assert type(error) is expected
    assert str(error) == "PATCH /x: the server's words"


@pytest.mark.parametrize("status", [500, 503, 504])
def test_a_5xx_of_the_api_server_to_a_write_is_a_failed_write(status):
    body = json.dumps({"kind": "Status", "message": "failed calling webhook"}).encode()
    error = api_errors.from_status(status, body, operation="POST /x", is_write=True)
    assert type(error) is errors.WriteFailed
    assert str(error) == "POST /x: failed calling webhook"


@pytest.mark.parametrize("body", [b"", b"<html>bad gateway", b'{"message": "no upstream"}'])
def test_a_5xx_of_a_proxy_means_no_answer_of_the_api_server(body):
    error = api_errors.from_status(503, body, operation="POST /x", is_write=True)
    assert type(error) is errors.ClusterUnavailable


def test_every_status_of_http_has_an_error():
    for status in range(300, 600):
        assert isinstance(
            api_errors.from_status(status, b"", operation="GET /x"), errors.ClusterError
        )


def test_an_answer_that_is_no_json_is_quoted():
    error = api_errors.from_status(502, b"<html>bad gateway", operation="GET /x")
    assert str(error) == "GET /x: <html>bad gateway"


def test_what_is_no_failure_of_the_cluster_is_a_bug():
    with pytest.raises(TypeError, match="KeyError is no failure of the cluster"):
        api_errors.translate(KeyError("x"), operation="GET /x")
