"""Filters, paths, names and texts are only ever data: no statement is made of them, nothing breaks.

15 requests a field by default; `KAIS_ROUTE_EXAMPLES` sets another number, as `make soak` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import hypothesis
import pytest
from hypothesis import strategies as st

from knowledge_client.models import Grant
from knowledge_service.asgi_app import create_app
from knowledge_service.domain.principals import Principal
from knowledge_service.ports import Listing
from knowledge_service.store.sqlite.store import SqliteStore
from tests import settings
from tests.fakes.identity import NamedCallers
from tests.knowledge_builders import ALL, LEAD, OTHER, PERSON, TEAM, new_fact

FOREIGN = "the other tenant's launch code is swordfish"
# What broke the memory stores of others, and what breaks parsers, paths, LIKE, JSON and terminals.
ATTACKS = (
    "' OR 1=1 --", "'; DROP TABLE fact; --", '" OR ""="', "1) UNION SELECT content FROM fact --",
    "fact.content", "scope_no", "$ne", '{"$gt": ""}', "content: *", "NEAR(a b, 5)", "a* OR b",
    "%", "_", "\\", "../../etc/passwd", "..%2f..", "/", "//", "realm:", "realm:demo/", "platform/x",
    OTHER, OTHER + "/", "realm:other", "realm:*", "*", "null", "None", "\x00", "a\x00b", "\ufeff",
    "\u202e", "\u0130", "e\u0301", "\ud7ff", "\U0001f525" * 50, "\uff41", "\r\nX: 1", "-1", "1e999",
    "9" * 400, "NaN", "true", "[]", "{{7*7}}", "${jndi:ldap://x}", "a" * 5000, " ", "\t", "",
)  # fmt: skip
HOSTILE = st.one_of(st.sampled_from(ATTACKS), st.text(max_size=60))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | HOSTILE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(HOSTILE, inner, max_size=4),
    max_leaves=12,
)
QUERIES = {
    "/v1/facts": (
        "scope", "kind", "tag", "lifecycle", "source", "review", "valid_at", "known_at", "cursor",
        "limit",
    ),
    "/v1/runs": ("scope", "blueprint", "namespace", "outcome", "cursor", "limit"),
    "/v1/scopes": ("path", "parent", "cursor", "limit"),
    "/v1/reviews": ("scope", "cursor", "limit"),
    "/v1/audit": ("scope", "cursor", "limit"),
    "/v1/principals": ("subject", "cursor"),
    "/v1/links": ("from", "to", "type"),
}  # fmt: skip
PATHS = (
    "/v1/facts/{}", "/v1/facts/{}/history", "/v1/facts/{}/links", "/v1/facts/{}/neighbors",
    "/v1/facts/{}/why", "/v1/facts/{}/impact", "/v1/receipts/{}", "/v1/receipts/{}:replay",
    "/v1/runs/{}", "/v1/runs/{}/episodes", "/v1/stats/blueprints/{}/{}", "/v1/extractions/{}",
    "/v1/scopes/{}", "/{}", "/v1/{}",
)  # fmt: skip
BODIES: dict[str, dict[str, Any]] = {
    "/v1/facts": {
        "content": "x", "scope": LEAD, "kind": "fact", "title": "t", "tags": ["a"], "subject": "s",
        "predicate": "p", "source": {"type": "agent"}, "run": "r", "about": "f", "position": 1,
        "confidence": 0.5, "valid_from": "2026-01-01T00:00:00Z",
    },
    "/v1/recall": {
        "query": "code", "scopes": [LEAD], "kinds": ["fact"], "tags": ["a"], "limit": 5,
        "min_confidence": 0.1, "run": "r", "known_at": "2026-01-01T00:00:00Z", "why_not": "f",
    },
    "/v1/links": {"from": "a", "to": "b", "type": "supports"},
    "/v1/usage": {"fact_ids": ["a"], "kind": "succeeded", "run": "r"},
    "/v1/episodes": {"run_id": "r", "episodes": [{"type": "message", "content": "x"}]},
    "/v1/stats:batch": {"blueprints": [{"namespace": "demo", "name": "review"}]},
    "/remember": {"content": "x", "scope": LEAD, "tags": ["a"]},
    "/recall": {"query": "code", "scope": LEAD},
    "/correct": {"fact_id": "f", "reason": "wrong"},
}  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    created = SqliteStore(tmp_path_factory.mktemp("hostile") / "knowledge.db")
    created.remember([new_fact(FOREIGN, OTHER), new_fact("our code", TEAM)], actor=PERSON)
    yield created
    # Whatever was tried, the tables and the other tenant's fact are there.
    assert FOREIGN in {fact.content for fact in created.list_facts(Listing(ALL, 10_000))}
    created.close()


@pytest.fixture(scope="module")
def call(store: SqliteStore) -> Iterator[Any]:
    """Send a request as an agent of one team; it never gets a 5xx, nor what others know."""
    grants = (Grant(scope=TEAM, verbs=("read", "write")),)
    agent = Principal("demo/lead-0", "agent", LEAD, grants)
    transport = httpx.ASGITransport(create_app(store, NamedCallers({"agent": agent})))
    headers = {"Authorization": "Bearer agent"}
    client = httpx.AsyncClient(transport=transport, base_url="http://service", headers=headers)
    with asyncio.Runner() as runner:

        def sent(method: str, path: str, **fields: Any) -> httpx.Response:
            answer = runner.run(client.request(method, path, **fields))
            assert answer.status_code < 500, answer.text
            assert "swordfish" not in answer.text
            assert answer.status_code < 400 or answer.json()["code"]
            return answer

        yield sent
        runner.run(client.aclose())


def trying(test: Any) -> Any:
    """Run a property with bounded, repeatable examples."""
    health = list(hypothesis.HealthCheck)
    return hypothesis.settings(
        max_examples=settings.route_examples(), derandomize=True, database=None,
        suppress_health_check=health,
    )(test)  # fmt: skip


@pytest.mark.parametrize("path", QUERIES)
def test_filter_is_only_ever_data(call: Any, path: str) -> None:
    names = st.sampled_from(QUERIES[path]) | HOSTILE

    @trying
    @hypothesis.given(st.lists(st.tuples(names, HOSTILE), max_size=3))
    def filtered(pairs: list[tuple[str, str]]) -> None:
        call("GET", path, params=pairs)

    filtered()
    for name in QUERIES[path]:
        for attack in ATTACKS:
            call("GET", path, params={name: attack})


@pytest.mark.parametrize("path", PATHS)
def test_name_in_a_path_is_only_ever_data(call: Any, path: str) -> None:
    @trying
    @hypothesis.given(HOSTILE, HOSTILE)
    def named(first: str, second: str) -> None:
        call("GET", path.format(*(quote(name, safe="") for name in (first, second))))

    named()


@pytest.mark.parametrize("path", BODIES)
def test_field_of_a_body_is_only_ever_data(call: Any, path: str) -> None:
    fields = st.sampled_from(sorted(BODIES[path])) | HOSTILE

    @trying
    @hypothesis.given(st.dictionaries(fields, JSON, max_size=3), HOSTILE)
    def filled(fact_fields: dict[str, Any], key: str) -> None:
        headers = {"Idempotency-Key": quote(key)[:300]} if key else {}
        call("POST", path, json=BODIES[path] | fact_fields, headers=headers)

    filled()


@pytest.mark.parametrize("attack", ATTACKS, ids=range(len(ATTACKS)))
def test_question_and_content_may_say_anything(call: Any, attack: str) -> None:
    call("POST", "/v1/recall", json={"query": attack})
    call("POST", "/v1/recall", json={"query": f"{attack} code {attack}"})
    answer = call("POST", "/v1/facts", json={"content": f"x{attack}", "tags": [attack]})
    if answer.status_code < 300:
        assert call("GET", f"/v1/facts/{answer.json()['fact_id']}").json()["content"]
