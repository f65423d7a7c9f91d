"""No body makes the others wait: bounds come before gates, and gates stay off the event loop."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from kais.facts import LIMITS
from knowledge_client.models import FactIn, RecallIn
from knowledge_service.domain import prompt_injection, redaction
from tests.contract.service.callers import OPERATOR, Connect
from tests.knowledge_builders import LEAD, TEAM, run_in

# Each of these is dear to one of the gates: words that begin a rule, words that begin a secret.
ORDERS, SECRETS, MARKS = "drop all ", "a-", "\u0315\u0316"
_GATES = [
    (redaction, "mask"),
    (redaction, "mask_tree"),
    (redaction, "mask_known_formats"),
    (redaction, "may_contain_secret"),
    (prompt_injection, "detect_flags"),
    (prompt_injection, "may_match"),
]
_MOST_CHARACTERS = 100
"""What a gate may read on the event loop, such as the name of a session."""


def filled(part: str, size: int) -> str:
    return part * (size // len(part)) + " password rules"


class Gates:
    """Counts the characters that the gates read: those of the event loop's thread, and all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.on_event_loop = 0
        self.total = 0
        self._event_loop_thread = threading.get_ident()
        for module, name in _GATES:
            monkeypatch.setattr(module, name, self._counting(getattr(module, name)))

    def _counting(self, gate: Callable[..., Any]) -> Callable[..., Any]:
        def count(*values: Any) -> Any:
            size = sum(len(str(value)) for value in values)
            self.total += size
            if threading.get_ident() == self._event_loop_thread:
                self.on_event_loop += size
            return gate(*values)

        return count


@pytest.fixture
def gates(monkeypatch: pytest.MonkeyPatch) -> Gates:
    return Gates(monkeypatch)


@pytest.mark.parametrize("part", [ORDERS, SECRETS, MARKS])
@pytest.mark.parametrize("size", [900_000, 2_000_000])
async def test_data_beyond_its_bound_is_refused_before_a_gate_reads_it(
    http: httpx.AsyncClient, gates: Gates, part: str, size: int
) -> None:
    body = {"content": "x", "data": {"a": filled(part, size // len(part.encode()))}}
    answer = await http.post("/v1/facts", json=body, headers=OPERATOR)
    assert answer.status_code == 413
    assert (
        "bytes; the maximum is 65536" in answer.text
        or "the body exceeds 1048576 bytes" in answer.text
    )
    assert gates.total < _MOST_CHARACTERS


@pytest.mark.parametrize("part", [ORDERS, SECRETS, MARKS])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/facts", lambda text: {"content": text[:8192], "data": {"a": text}}),
        ("/v1/facts", lambda text: {"content": "x", "data": {"a": [text[:30000], text[:30000]]}}),
        (
            "/v1/facts:batch",
            lambda text: {
                "facts": [{"content": f"{n}{text[:8000]}", "tags": [text[:64]]} for n in range(60)]
            },
        ),
        ("/v1/facts:batch", lambda text: {"facts": [{"content": "x", "data": {"a": text}}] * 20}),
        ("/remember", lambda text: {"content": text[:8192]}),
        ("/v1/recall", lambda text: {"query": text[:8192]}),
        (
            "/v1/episodes",
            lambda text: {
                "run_id": "r",
                "episodes": [
                    {"type": "message", "content": f"{n}{text[:8000]}"} for n in range(60)
                ],
            },
        ),
    ],
    ids=["fact", "list", "batch", "batch of data", "reference", "recall", "episodes"],
)
async def test_nobody_waits_while_a_gate_reads(
    connect: Connect, http: httpx.AsyncClient, gates: Gates, part: str, path: str, body: Any
) -> None:
    await connect("operator").put_run("r", run_in())
    text = filled(part, 60_000 // len(part.encode()))
    answer = await http.post(path, json=body(text), headers=OPERATOR)
    assert answer.status_code < 300, answer.text
    assert gates.total > len(text) // 20, "the gates are those of this list"
    assert gates.on_event_loop < _MOST_CHARACTERS


@pytest.mark.parametrize("part", [ORDERS, SECRETS, MARKS])
async def test_nobody_waits_while_a_verb_makes_a_fact_of_another(
    connect: Connect, http: httpx.AsyncClient, gates: Gates, part: str
) -> None:
    data = {"a": filled(part, 60_000 // len(part.encode()))}
    stored = await connect("operator").remember(FactIn(content="x", scope=TEAM, data=data))
    text = filled(part, 8000 // len(part.encode()))
    correction = {"reason": text[:2000], "replacement": text}
    answer = await http.post(
        f"/v1/facts/{stored.fact_id}:correct", json=correction, headers=OPERATOR
    )
    assert answer.status_code == 200
    new = answer.json()["replacement_id"]
    edits = {"reason": "read", "content": f"{text}!"}
    answer = await http.post(f"/v1/facts/{new}:approve", json=edits, headers=OPERATOR)
    assert answer.status_code == 200
    assert gates.total > len(text)
    assert gates.on_event_loop < _MOST_CHARACTERS


async def test_parameters_of_a_run_are_bounded(http: httpx.AsyncClient) -> None:
    body = {"namespace": "demo", "scope": TEAM, "parameters": {"a": filled(ORDERS, 300_000)}}
    answer = await http.put("/v1/runs/r", json=body, headers=OPERATOR)
    assert answer.status_code == 413
    assert answer.json()["detail"].startswith("parameters have 300")
    assert "the maximum is 262144; omit values" in answer.json()["detail"]


async def test_body_of_one_thing_is_bounded_by_what_it_may_hold(http: httpx.AsyncClient) -> None:
    text = '{"content": "x"' + " " * (1024 * 1024) + "}"
    headers = {**OPERATOR, "Content-Type": "application/json"}
    for path in ("/v1/facts", "/remember", "/v1/facts/f:correct", "/v1/recall"):
        answer = await http.post(path, content=text, headers=headers)
        assert answer.status_code == 413, path
        assert answer.json()["detail"] == "the body exceeds 1048576 bytes"
    batch = '{"facts": [{"content": "x"}]' + " " * (1024 * 1024) + "}"
    assert (await http.post("/v1/facts:batch", content=batch, headers=headers)).is_success


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/whoami"), ("DELETE", "/v1/scopes/realm:x"), ("POST", "/v1/scopes/realm:x:reset")],
)
async def test_body_that_a_route_does_not_take_is_not_read(
    http: httpx.AsyncClient, method: str, path: str
) -> None:
    """Its size counts only if the request says it, so that many could fill the memory."""
    pieces = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal pieces
        for _ in range(1000):
            pieces += 1
            yield b" " * 1000

    answer = await http.request(method, path, content=body(), headers=OPERATOR)
    assert answer.status_code == 413
    assert answer.json()["detail"] == "the body exceeds 4096 bytes"
    assert pieces < 10


async def test_counters_of_a_run_are_bounded_in_number_and_length(http: httpx.AsyncClient) -> None:
    async def put(counters: dict[str, int]) -> httpx.Response:
        body = {"kind": "session", "namespace": "demo", "scope": LEAD, "counters": counters}
        return await http.put("/v1/runs/r", json=body, headers={"Authorization": "Bearer lead"})

    assert (await put({f"a{n}": n for n in range(64)})).status_code == 200
    assert (await put({"a1": 7})).json()["counters"]["a1"] == 7
    answer = await put({"b": 1})
    assert answer.status_code == 422
    assert answer.json()["detail"] == "run r would have 65 counters, at most 64"
    answer = await put({"c" * 65: 1})
    assert answer.status_code == 422
    assert answer.json()["detail"] == "the name of a counter has 65 characters, at most 64"


LONG = "k" * 1_000_000


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"kinds": ["fact", LONG]}, "kinds.1"),
        ({"tags": [LONG]}, "tags.0"),
        ({"why_not": [LONG]}, "why_not.0"),
        ({"schema": "ko/1", "facets": [LONG]}, "facets.0"),
    ],
)
async def test_filter_of_a_recall_longer_than_any_stored_value_is_refused_by_name(
    http: httpx.AsyncClient, body: dict[str, Any], path: str
) -> None:
    answer = await http.post("/v1/recall", json={"query": "pod", **body}, headers=OPERATOR)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-body")
    assert [violation["path"] for violation in answer.json()["violations"]] == [path]
    assert len(answer.content) < 1000, "the answer does not repeat the value"


@pytest.mark.parametrize("name", ["kind", "tag"])
async def test_filter_of_a_list_longer_than_any_stored_value_is_refused_by_name(
    http: httpx.AsyncClient, name: str
) -> None:
    answer = await http.get("/v1/facts", params={name: "k" * 65}, headers=OPERATOR)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-body")
    assert [violation["path"] for violation in answer.json()["violations"]] == [f"query.{name}"]


async def test_facts_with_the_longest_kind_and_tag_are_recalled_and_listed(
    connect: Connect,
) -> None:
    lead = connect("lead")
    kind, tag = "k" * LIMITS.kind, "\u1e9e" * LIMITS.tag  # twice as long in lower case
    stored = await lead.remember(FactIn(content="pods crash", kind=kind, tags=(tag,)))
    recalled = await lead.recall(RecallIn(query="pods", kinds=(kind,), tags=(tag,)))
    assert [fact.id for fact in recalled.facts] == [stored.fact_id]
    listed = await lead.list_facts(kind=kind, tag=tag)
    assert [fact.id for fact in listed.facts] == [stored.fact_id]
