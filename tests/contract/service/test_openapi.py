"""Whatever is sent to a route gets a documented answer of the documented shape, and never a 5xx.

15 requests an operation by default; `KAIS_ROUTE_EXAMPLES` sets another number, as `make soak` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import strategies as st
from schemathesis import GenerationMode, checks
from schemathesis.specs.openapi import checks as openapi_checks

from knowledge_service.asgi_app import create_app
from knowledge_service.authentication.disabled import NoAuthentication
from knowledge_service.store.sqlite.store import SqliteStore
from tests import settings
from tests.knowledge_builders import OPERATOR, PERSON, TEAM, new_fact, run_in

CHECKS = [
    checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_schema_conformance,
    openapi_checks.response_headers_conformance,
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path_factory.mktemp("openapi") / "knowledge.db")
    yield store
    store.close()


@pytest.fixture(scope="module")
def app(store: SqliteStore) -> Any:
    app = create_app(store, NoAuthentication())
    app.state.services.subscription_limiter.is_closing = True  # streams of events end at once
    return app


@pytest.fixture(scope="module")
def known(store: SqliteStore) -> dict[str, list[str]]:
    """Store something of each kind, so that made-up requests meet it."""
    facts = [new_fact(f"the build {number} needs Java") for number in range(5)]
    remembered = store.remember(facts, actor=PERSON)
    store.put_run("run-1", run_in(mission="m-1"), actor=OPERATOR)
    return {
        "fact_id": [item.fact_id for item in remembered],
        "run_id": ["run-1"],
        "path": [TEAM, "realm:demo", "platform"],
        "namespace": ["demo"],
        "name": ["review"],
    }


def operations() -> list[Any]:
    """List the operations without an app: the document is the same for every store."""
    document = create_app(None, NoAuthentication()).openapi()  # type: ignore[arg-type]
    return [(path, method) for path, result in document["paths"].items() for method in result]


@pytest.mark.parametrize(("path", "method"), operations())
def test_route_answers_whatever_is_sent_as_it_is_documented(
    app: Any, known: dict[str, list[str]], path: str, method: str
) -> None:
    answers_as_documented(app, known, path, method)


def test_answer_that_is_not_documented_fails_the_suite(
    store: SqliteStore, known: dict[str, list[str]]
) -> None:
    app = create_app(store, NoAuthentication())
    del app.openapi()["paths"]["/v1/facts/{fact_id}"]["get"]["responses"]["404"]
    with pytest.raises(BaseExceptionGroup):
        answers_as_documented(app, known, "/v1/facts/{fact_id}", "get")


def answers_as_documented(
    app: Any, known_fields: dict[str, list[str]], path: str, method: str
) -> None:
    """Send requests that fit the description, and ones that do not where that is possible."""
    operation = schemathesis.openapi.from_asgi("/openapi.json", app)[path][method]
    names = [name for name in known_fields if "{" + name + "}" in path]
    cases = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    if list(operation.query) or list(operation.body):
        cases |= operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)

    @hypothesis.settings(
        max_examples=settings.route_examples(),
        database=None,
        derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(st.data())
    def answers(data: st.DataObject) -> None:
        case = data.draw(cases)
        if names and data.draw(st.booleans()):
            case.path_parameters = {
                name: data.draw(st.sampled_from(known_fields[name])) for name in names
            }
        case.call_and_validate(checks=CHECKS)

    answers()
