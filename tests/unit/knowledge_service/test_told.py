"""Facts read and looked at together are what each would be alone."""

from __future__ import annotations

import json
from typing import Any

import pydantic_core
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from knowledge_client.models import FactIn, FactsIn, ScopeConfig
from knowledge_service.domain import signs, told
from knowledge_service.domain.facts import NewFact
from knowledge_service.domain.visibility import Principal, administrator
from knowledge_service.errors import ServiceError
from knowledge_service.flows import preparing
from knowledge_service.index import looking, terms
from tests.builders_knowledge import LEAD, PERSON, TEAM
from tests.fakes.store import MemoryStore
from tests.unit.knowledge_service import corpora

WORDS = st.sampled_from(
    [*corpora.POISON[:20], *(text for text, _ in [*corpora.secrets()][:20]), "pod", "é", "ﬁ",
     " ", "\n", "  ", "\t", "\x1c", "\u2028", '"', "\\", "\x00", "", "ignore",
     "previous instructions", "glpat-", "aB3dE5gH7jK9mN1pQ3sT5vX7", "A" * 70, "n12", "\U0001f600"]
)  # fmt: skip
TEXTS = st.lists(WORDS | st.text(max_size=4), max_size=6).map(" ".join)
FACTS = st.fixed_dictionaries(
    {"content": TEXTS},
    optional={
        "scope": st.sampled_from([None, TEAM, LEAD, "realm:other", "no scope", {"level": "realm"}]),
        "kind": st.sampled_from(["fact", "pitfall", "No Kind", "", 7, None]),
        "title": TEXTS | st.none(),
        "tags": st.lists(TEXTS | st.sampled_from(["A", "a", " a "]), max_size=4) | st.none(),
        "confidence": st.sampled_from([0, 1, 0.25, -0.0, 1.5, True, "0.5", None]),
        "aliases": st.sampled_from([[], [{"namespace": "ko", "value": "x"}]]),
        "review": st.sampled_from(["none", "draft", "approved"]),
        "force": st.booleans(),
        "validFrom": st.just("2030-01-01T00:00:00Z"),
        "unknown": st.just(1),
    },
)
CALLERS = [administrator("operator", "system"), Principal("demo/lead-0", "agent", LEAD)]


def as_models(body: bytes) -> FactsIn | None:
    try:
        return FactsIn.model_validate(pydantic_core.from_json(body, allow_inf_nan=False))
    except ValueError:
        return None


@given(st.lists(FACTS, max_size=3))
@example([{"content": "x" * 8193}])
@example([{"content": "x", "title": "t" * 201}])
@example([{"content": "x", "tags": ["t"] * 33}])
@example([{"content": "x"}] * 201)
def test_body_that_is_read_is_what_the_models_read(facts: list[dict[str, Any]]) -> None:
    body = json.dumps({"facts": facts}).encode()
    found = told.read(body)
    if found is not None:
        models = as_models(body)
        assert told.facts_in(found) == models
        assert models is not None
        dumped = told.facts_in(found).model_dump(mode="json", by_alias=True)
        assert dumped == models.model_dump(mode="json", by_alias=True)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b'{"facts": []}', b'{"facts": [{"content": "\\ud800"}]}', b'{"facts": [[]]}',
        b'{"facts": [{"content": "\xff"}]}', b'{"facts": [{"content": "x"}]} x',
        b'{"facts": [{"content": "x", "run": "r"}]}', b'{"facts": [{"content": "x"}], "more": 1}',
    ],
)  # fmt: skip
def test_body_that_says_more_or_is_none_is_left_to_the_models(body: bytes) -> None:
    assert told.read(body) is None


def test_fact_told_twice_over_in_one_body_is_what_the_models_read() -> None:
    body = b'{"facts": [{"content": "x", "content": "y"}]}'
    found = told.read(body)
    assert found is not None
    assert told.facts_in(found) == as_models(body)


@given(st.lists(FACTS, min_size=1, max_size=6), st.sampled_from(CALLERS), st.booleans())
@example([{"content": "  a \n b "}, {"content": "a b"}], CALLERS[0], False)
@example([{"content": "x", "title": ""}], CALLERS[1], True)
def test_facts_prepared_together_are_those_prepared_alone(
    facts: list[dict[str, Any]], caller: Principal, refuses: bool
) -> None:
    found = told.read(json.dumps({"facts": facts}).encode())
    if found is None:
        return
    store = MemoryStore()
    if refuses:
        store.put_scope(LEAD, ScopeConfig(secrets="Refuse"), actor=PERSON)
    together = prepared(lambda: preparing.prepare_told(store, caller, found, looking.look(found)))
    alone = prepared(
        lambda: [preparing.prepare(store, caller, body) for body in map(told.fact_in, found)]
    )
    assert together == alone


def prepared(work: Any) -> Any:
    """Return the facts with what is worked out of them, or the refusal."""
    try:
        facts: list[NewFact] = work()
    except ServiceError as exc:
        return type(exc), exc.detail
    for fact in facts:
        assert fact.terms in (None, terms.packed_of(fact.rendering))
    return [(fact, fact.content_hash, fact.key_hash, fact.rendering) for fact in facts]


@given(st.lists(TEXTS, max_size=6))
def test_signs_of_texts_together_are_those_of_each(texts: list[str]) -> None:
    for _ in range(2):  # the second time the words are known
        assert list(signs.of_all(texts)) == [signs.of(text) for text in texts]


def test_most_facts_of_a_batch_need_no_look_of_their_own() -> None:
    texts = list(corpora.ordinary(200))
    found = told.looked_at(tuple(told.Told(content=text) for text in texts))
    assert sum(found) > len(texts) * 0.3


def test_empty_title_is_no_secret() -> None:
    store = MemoryStore()
    store.put_scope(LEAD, ScopeConfig(secrets="Refuse"), actor=PERSON)
    fact = preparing.prepare(store, CALLERS[1], FactIn(content="the build is red", title=""))
    assert fact.title is None
