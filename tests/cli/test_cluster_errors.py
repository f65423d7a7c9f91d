import inspect

import httpx
import kr8s
import pytest

from kais_cli import errors
from kais_cli.cluster import port_forward
from kais_cli.cluster.api_client import ResponseError
from kais_cli.error_messages import kubernetes_api

KR8S = [
    item for item in vars(kr8s).values() if inspect.isclass(item) and issubclass(item, Exception)
]


def refusal(status, body):
    return ResponseError("the server's words", status, body)


def test_every_exception_of_kr8s_is_known_here():
    assert {kind.__name__ for kind in KR8S} == {
        "APITimeoutError", "ConnectionClosedError", "ExecError", "NotFoundError", "ServerError",
    }  # fmt: skip
    assert all(issubclass(kind, port_forward.FORWARD_ERRORS) for kind in KR8S)


@pytest.mark.parametrize("kind", KR8S, ids=lambda kind: kind.__name__)
def test_each_becomes_an_error_that_says_what_was_tried(kind):
    assert str(port_forward.translate(kind("why"), "forward a port to Pod/a/b")).startswith(
        "forward a port to Pod/a/b: "
    )


@pytest.mark.parametrize(
    ("failure", "kind", "message"),
    [
        (httpx.ConnectError("refused"), errors.Unreachable, "does not answer (refused)"),
        (httpx.ReadTimeout(""), errors.Unreachable, "does not answer (no answer in time)"),
        (refusal(401, {}), errors.Unreachable, "login is not accepted"),
        (refusal(503, None), errors.Unreachable, "answers 503"),
        (refusal(403, {}), errors.Refused, "the server's words"),
        (refusal(404, None), errors.UnknownKind, "install the charts kais-crds"),
        (refusal(404, {"reason": "NotFound"}), errors.Refused, "the server's words"),
    ],
)
def test_a_failure_says_whether_nobody_answers_or_somebody_refuses(failure, kind, message):
    error = kubernetes_api.translate(failure, "list missions")
    assert type(error) is kind
    assert message in str(error)


@pytest.mark.parametrize(
    ("operation", "role"),
    [("list missions in demo", "view"), ("get Mission/demo/m", "view"), ("create Mission", "edit")],
)
def test_a_missing_right_on_objects_of_kais_is_answered_with_the_role(operation, role):
    message = 'missions.kais.io is forbidden: User "jane" cannot do this'
    failure = ResponseError(message, 403, {})
    assert str(kubernetes_api.translate(failure, operation)) == (
        f"{operation}: {message}; the ClusterRole {role}, bound to you in the namespace, allows it"
    )


def test_only_an_object_can_be_missing_not_its_kind():
    assert kubernetes_api.is_missing(refusal(404, {"reason": "NotFound"}))
    assert not kubernetes_api.is_missing(refusal(404, None))
