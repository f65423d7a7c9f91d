import json

import pytest

from knowledge_client import errors, models, requests, responses
from knowledge_client.error_codes import ErrorCode

FACT = {"fact_id": "f1", "status": "created"}
CLASSES = {
    (401, ErrorCode.UNAUTHENTICATED): errors.Unauthenticated,
    (403, ErrorCode.PRINCIPAL_UNREGISTERED): errors.PrincipalUnregistered,
    (403, ErrorCode.FORBIDDEN): errors.PermissionDenied,
    (403, ErrorCode.SCOPE_FORBIDDEN): errors.PermissionDenied,
    (404, ErrorCode.NOT_FOUND): errors.NotFound,
    (409, ErrorCode.CONFLICT): errors.Conflict,
    (409, ErrorCode.IDEMPOTENCY_CONFLICT): errors.Conflict,
    (409, ErrorCode.RUN_CLOSED_OTHERWISE): errors.Conflict,
    (409, ErrorCode.RETRACTED_BEFORE): errors.Conflict,
    (410, ErrorCode.COMPACTED): errors.Compacted,
    (401, ErrorCode.TICKET_INVALID): errors.Unauthenticated,
    (401, ErrorCode.TICKET_EXPIRED): errors.Unauthenticated,
    (403, ErrorCode.LOOP): errors.PermissionDenied,
    (403, ErrorCode.SCOPE_READ_ONLY): errors.PermissionDenied,
    (422, ErrorCode.INVALID_BODY): errors.InvalidRequest,
    (400, ErrorCode.INVALID_TOKEN): errors.InvalidRequest,
    (422, ErrorCode.SECRET_REFUSED): errors.InvalidRequest,
    (413, ErrorCode.TOO_LARGE): errors.TooLarge,
    (429, ErrorCode.QUOTA_EXCEEDED): errors.QuotaExceeded,
    (503, ErrorCode.STORE_UNAVAILABLE): errors.KnowledgeUnavailable,
    (504, ErrorCode.TOOK_TOO_LONG): errors.ReadTimeout,
    (503, ErrorCode.IDENTITY_UNAVAILABLE): errors.KnowledgeUnavailable,
    (500, ErrorCode.INTERNAL): errors.UnexpectedAnswer,
}


def parse(status, body, request=None, headers=None):
    request = request or requests.remember(models.FactIn(content="x"))
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return responses.parse(request, status, headers or {}, raw)


def problem(code, status):
    return {"title": "t", "status": status, "code": code, "detail": "the words of the service"}


def test_a_success_is_the_model_of_its_request():
    assert parse(201, FACT) == models.Remembered(fact_id="f1", status="created")


def test_an_answer_without_a_body_is_none():
    assert parse(204, b"", requests.delete_scope("realm:demo")) is None


def test_every_code_has_its_error():
    assert {code for _, code in CLASSES} == set(ErrorCode)


@pytest.mark.parametrize(("status", "code"), CLASSES, ids=[str(c) for _, c in CLASSES])
def test_a_problem_becomes_the_error_of_its_code(status, code):
    with pytest.raises(errors.KnowledgeError) as caught:
        parse(status, problem(code, status))

    assert type(caught.value) is CLASSES[status, code]
    assert caught.value.code == code
    assert str(caught.value) == f"POST /v1/facts: {status} {code}: the words of the service"


def test_a_code_of_a_newer_service_is_judged_by_its_status():
    with pytest.raises(errors.Conflict):
        parse(409, problem("a-new-conflict", 409))


def test_a_proxy_without_a_problem_is_judged_by_its_status_and_quoted():
    with pytest.raises(errors.KnowledgeUnavailable, match="502 '<html>Bad Gateway</html>'"):
        parse(502, b"<html>Bad  \n Gateway</html>".replace(b"  \n ", b" "))


def test_violations_are_all_in_the_message():
    body = problem(ErrorCode.INVALID_BODY, 422) | {
        "violations": [
            {"path": "content", "message": "is empty"},
            {"path": "confidence", "message": "is above 1"},
        ]
    }
    with pytest.raises(errors.InvalidRequest) as caught:
        parse(422, body)

    assert "(content: is empty; confidence: is above 1)" in str(caught.value)
    assert [v.path for v in caught.value.violations] == ["content", "confidence"]


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b'{"fact_id": 1}'])
def test_a_success_that_is_not_ours_is_unexpected(body):
    with pytest.raises(errors.UnexpectedAnswer, match="is not a Remembered"):
        parse(200, body)


def test_a_redirect_is_unexpected():
    with pytest.raises(errors.UnexpectedAnswer, match="302 without a body"):
        parse(302, b"")


def test_retry_after_is_read_in_seconds_and_a_date_is_left():
    assert responses.retry_after_s({"retry-after": "7"}) == 7
    assert responses.retry_after_s({"Retry-After": "Fri, 21 Nov 2025 10:00:00 GMT"}) is None
    assert responses.retry_after_s({}) is None


def test_a_store_that_is_not_ready_is_an_answer():
    health = parse(503, {"status": "unavailable", "detail": "disk is gone"}, requests.ready())

    assert health == models.Health(status="unavailable", detail="disk is gone")
