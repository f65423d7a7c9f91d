"""What a person reads when the knowledge service says no, or nothing at all."""

import json

import httpx
import pytest

from kais_cli import errors, settings
from kais_cli.error_messages import knowledge_service
from kais_cli.exit_status import ExitStatus
from knowledge_client import errors as knowledge
from knowledge_client import httpx_errors, models, requests, responses

URL = "http://127.0.0.1:8000"
REQUEST = requests.get_fact("f1")


def refused(status, code, *, headers=(), violations=()):
    body = {
        "title": "t", "status": status, "code": code, "detail": "the service's words",
        "violations": [{"path": path, "message": text} for path, text in violations],
    }  # fmt: skip
    return responses.error_of(REQUEST, status, dict(headers), json.dumps(body).encode())


@pytest.mark.parametrize(
    ("failure", "kind", "message"),
    [
        (refused(404, "not-found"), errors.Refused, "the service's words (not-found)"),
        (refused(409, "conflict"), errors.Refused, "the service's words (conflict)"),
        (
            refused(403, "scope-forbidden"), errors.Refused,
            ("the service's words (scope-forbidden);"
            " `kais knowledge stats` lists the scopes that you may see"),
        ),
        (
            refused(401, "unauthenticated"), errors.Refused,
            ("the service's words (unauthenticated);"
            " set KNOWLEDGE_TOKEN_FILE to a file with a token of this service"),
        ),
        (
            refused(429, "quota-exceeded", headers={"Retry-After": "7"}.items()), errors.Refused,
            "the service's words (quota-exceeded); try again in 7 s",
        ),
        (
            refused(503, "store-unavailable"), errors.Unreachable,
            ("the knowledge service cannot answer now:"
            " the service's words (store-unavailable); try again later"),
        ),
        (
            refused(500, "internal"), errors.Refused,
            "the knowledge service failed: the service's words (internal); its log says why",
        ),
        (
            refused(422, "invalid-body", violations=[("tags", "too many"), ("kind", "is odd")]),
            errors.UsageError,
            "the service's words: tags: too many; kind: is odd (invalid-body)",
        ),
        (
            responses.error_of(REQUEST, 502, {}, b"<html>bad gateway</html>"), errors.Unreachable,
            (f"{URL} (KAIS_KNOWLEDGE_URL) did not respond like a knowledge service;"
            " is a proxy in between?"
            " GET /v1/facts/f1: 502 '<html>bad gateway</html>'"),
        ),
        (
            responses.error_of(REQUEST, 302, {}, b""), errors.Refused,
            (f"{URL} (KAIS_KNOWLEDGE_URL) did not respond like a knowledge service;"
            " is a proxy in between?"
            " GET /v1/facts/f1: 302 without a body"),
        ),
        (
            httpx_errors.translate(httpx.ConnectError("refused"), call="GET /", url=URL),
            errors.Unreachable,
            (f"no answer from {URL} (KAIS_KNOWLEDGE_URL): refused;"
            " check that a knowledge service runs there"),
        ),
        (
            httpx_errors.translate(httpx.ReadTimeout("slow"), call="GET /", url=URL),
            errors.Unreachable,
            (f"no answer from {URL} (KAIS_KNOWLEDGE_URL) in time; the request may have"
            " succeeded; check before you retry"),
        ),
        (
            httpx_errors.translate(httpx.UnsupportedProtocol("no ftp"), call="GET /", url=URL),
            errors.UsageError,
            (f"{URL} (KAIS_KNOWLEDGE_URL) is not usable: no ftp;"
            " give an address such as http://127.0.0.1:8000"),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 20 else None,
)  # fmt: skip
def test_refusal_says_what_happened_and_what_to_do(failure, kind, message):
    cli_error = knowledge_service.translate(failure, namespace="demo", url=URL)
    assert (type(cli_error), str(cli_error)) == (kind, message)


def test_every_code_of_the_service_has_words_and_none_is_a_fault_of_kais():
    for code in knowledge.ErrorCode:
        problem = models.Problem(title="t", status=400, code=code, detail="why")
        failure = knowledge.error_class(code, 400)("GET /", problem=problem)
        cli_error = knowledge_service.translate(failure, namespace="demo", url=None)
        assert "why" in str(cli_error)
        assert code in str(cli_error)


def test_service_that_is_not_there_is_given_up_after_seconds(terminal, cluster):
    tried = []

    def nobody(request):
        tried.append(request)
        raise httpx.ConnectError("connection refused", request=request)

    terminal.settings = settings.Settings(knowledge_url=URL)
    terminal.knowledge = nobody
    assert terminal.run("knowledge", "list") == ExitStatus.UNREACHABLE
    assert 2 <= len(tried) <= 12
    assert terminal.err == (
        f"error: no answer from {URL} (KAIS_KNOWLEDGE_URL): connection refused;"
        " check that a knowledge service runs there\n"
    )


def test_token_file_that_cannot_be_read_is_named(terminal, monkeypatch, tmp_path):
    monkeypatch.setenv("KNOWLEDGE_TOKEN_FILE", str(tmp_path / "none"))
    terminal.settings = settings.Settings(knowledge_url=URL)
    assert terminal.run("knowledge", "list") == ExitStatus.USAGE
    assert f"cannot read the token file {tmp_path / 'none'}" in terminal.err


def test_account_that_is_not_registered_is_the_operators_to_mend():
    failure = refused(403, "principal-unregistered")
    cli_error = knowledge_service.translate(failure, namespace="demo", url=None)
    assert str(cli_error) == (
        "ServiceAccount/demo/kais-user is not registered with the knowledge service"
        " (the service's words (principal-unregistered)); the operator does that,"
        " check that it runs"
    )
