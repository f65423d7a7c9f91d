"""What a route does not have is refused with what was meant, never ignored."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from knowledge_client import base_model
from knowledge_client.models import FactsIn
from knowledge_service.routes import unknown_fields
from tests.contract.service.callers import OPERATOR
from tests.knowledge_builders import TEAM

RUN = {"namespace": "demo", "scope": TEAM}
ALIAS = {"namespace": "ko", "value": "KO-1"}


async def violations(answer: httpx.Response) -> list[tuple[str, str]]:
    assert answer.status_code == 422, answer.text
    problem = answer.json()
    assert problem["code"] == "invalid-body"
    assert problem["detail"] == "the request has unknown parameters or fields"
    return [(violation["path"], violation["message"]) for violation in problem["violations"]]


@pytest.mark.parametrize(
    ("query", "path", "message"),
    [
        ("/v1/facts?lifecyle=live", "lifecyle", "did you mean lifecycle?"),
        ("/v1/facts?cursour=x", "cursour", "did you mean cursor?"),
        ("/v1/runs?namespce=demo", "namespce", "did you mean namespace?"),
        ("/v1/audit?zzz=1", "zzz", "unknown parameter of this route"),
        ("/v1/whoami?verbose=1", "verbose", "unknown parameter of this route"),
        ("/v1/reviews?limits=1", "limits", "did you mean limit?"),
    ],
)
async def test_unknown_parameter_is_refused_with_a_suggestion(
    http: httpx.AsyncClient, query: str, path: str, message: str
) -> None:
    ((result, text),) = await violations(await http.get(query, headers=OPERATOR))
    assert result == path
    assert message in text


@pytest.mark.parametrize(
    ("method", "route", "body", "path", "message"),
    [
        ("POST", "/v1/facts", {"content": "x", "scpoe": TEAM}, "scpoe",
         "FactIn; did you mean scope?"),
        ("POST", "/v1/facts", {"content": "x", "source": {"reffs": []}}, "source.reffs",
         "Source; did you mean refs?"),
        ("POST", "/v1/facts", {"content": "x", "scope": {"level": "realm", "realm": "demo"}},
         "scope.realm", "WireScope; did you mean realm_id?"),
        ("POST", "/v1/facts", {"content": "x", "aliases": [ALIAS | {"digit": 3}]},
         "aliases.0.digit", "AliasIn; did you mean digits?"),
        ("POST", "/v1/facts:batch", {"facts": [{"content": "x"}, {"content": "y", "kindd": "z"}]},
         "facts.1.kindd", "FactIn; did you mean kind?"),
        ("POST", "/v1/recall", {"query": "x", "limitt": 3}, "limitt",
         "RecallIn; did you mean limit?"),
        ("POST", "/v1/facts/x:correct", {"reason": "x", "replacment": "y"}, "replacment",
         "CorrectIn; did you mean replacement?"),
        ("PUT", "/v1/runs/r", RUN | {"outcom": "Failed"}, "outcom", "RunIn; did you mean outcome?"),
        ("PUT", f"/v1/scopes/{TEAM}", {"retention": {"max_fact": 3}}, "retention.max_fact",
         "did you mean max_facts?"),
        ("POST", "/v1/extractions", {"run_id": "r", "limit": 3}, "limit",
         "no field of ExtractionIn"),
    ],
)  # fmt: skip
async def test_unknown_field_is_refused_with_a_suggestion(
    http: httpx.AsyncClient, method: str, route: str, body: Any, path: str, message: str
) -> None:
    answer = await http.request(method, route, json=body, headers=OPERATOR)
    ((result, text),) = await violations(answer)
    assert result == path
    assert message in text


async def test_nothing_of_a_refused_request_is_kept(http: httpx.AsyncClient) -> None:
    body = {"content": "rain", "scpoe": TEAM}
    await violations(await http.post("/v1/facts", json=body, headers=OPERATOR))
    assert (await http.get("/v1/facts", headers=OPERATOR)).json()["facts"] == []


async def test_all_mistakes_are_named_at_once_up_to_a_bound(http: httpx.AsyncClient) -> None:
    body = {"content": "x", **{f"field{n}": 1 for n in range(80)}}
    matching_violations = await violations(
        await http.post("/v1/facts?drun=1", json=body, headers=OPERATOR)
    )
    assert matching_violations[0] == (
        "drun",
        "unknown parameter of this route; did you mean dry_run?",
    )
    assert len(matching_violations) == 50


async def test_name_of_any_length_is_shown_in_part(http: httpx.AsyncClient) -> None:
    body = {"content": "x", "s" * 100_000: 1}
    ((path, _),) = await violations(await http.post("/v1/facts", json=body, headers=OPERATOR))
    assert path == "s" * 64


def test_list_beyond_its_bound_is_not_walked_through() -> None:
    body = {"facts": [{}] * 200 + [{"kindd": "x"}]}
    assert list(unknown_fields.unknown_body_fields(FactsIn, body)) == []


async def test_both_spellings_and_free_values_are_taken(http: httpx.AsyncClient) -> None:
    body = {"content": "x", "validFrom": "2026-01-01T00:00:00Z", "data": {"any": {"thing": 1}}}
    answer = await http.post("/v1/facts?dryRun", json=body, headers=OPERATOR)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("/remember", {"content": "x", "graph_id": "g", "semantic": True}),
        ("/recall", {"query": "x", "graph_id": "g", "recency": "any"}),
    ],
)
async def test_reference_clients_may_send_fields_of_their_own(
    http: httpx.AsyncClient, route: str, body: Any
) -> None:
    answer = await http.post(f"{route}?verbose=1", json=body, headers=OPERATOR)
    assert answer.status_code == 200
    assert (await http.post(route, json=body, headers=OPERATOR)).status_code == 200


async def test_correct_of_the_reference_may_have_fields_of_its_own(
    http: httpx.AsyncClient,
) -> None:
    response = await http.post("/remember", json={"content": "x"}, headers=OPERATOR)
    body = {"fact_id": response.json()["factId"], "reason": "r", "graph_id": "g"}
    assert (await http.post("/correct", json=body, headers=OPERATOR)).json() == {"status": "ok"}


@pytest.mark.parametrize("path", ["/healthz", "/v1/facts", "/v1/nowhere"])
async def test_every_answer_names_the_level_of_the_interface(
    http: httpx.AsyncClient, path: str
) -> None:
    for method in ("GET", "POST"):
        answer = await http.request(method, path, json={"content": "x"}, headers=OPERATOR)
        assert answer.headers["Kais-Api-Level"] == str(base_model.API_LEVEL)


@pytest.mark.parametrize(
    ("method", "route"),
    [("DELETE", f"/v1/scopes/{TEAM}"), ("POST", f"/v1/scopes/{TEAM}:reset"), ("GET", "/v1/facts")],
)
async def test_body_of_a_route_that_takes_none_is_refused(
    http: httpx.AsyncClient, method: str, route: str
) -> None:
    answer = await http.request(method, route, json={"erase": True}, headers=OPERATOR)
    message = "this route takes no body; its parameters are in the query"
    assert await violations(answer) == [("body", message)]
