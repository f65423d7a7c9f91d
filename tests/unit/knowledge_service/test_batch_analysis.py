"""Facts that are prepared together are what each would be alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from knowledge_client.models import FactIn, FactsIn, ScopeConfig
from knowledge_service.domain import facts, text_screening
from knowledge_service.domain.fact_text import FactText
from knowledge_service.domain.facts import NewFact
from knowledge_service.domain.principals import Principal, administrator
from knowledge_service.errors import ServiceError
from knowledge_service.search.text import batch_analysis, term_ids
from knowledge_service.use_cases import fact_validation
from tests.fakes.store import MemoryStore
from tests.knowledge_builders import LEAD, PERSON, TEAM
from tests.unit.knowledge_service import corpora

TEXT_STRATEGY = st.sampled_from(
    [*corpora.POISON[:20], *(text for text, _ in [*corpora.secrets()][:20]), "pod", "é", "ﬁ",
     " ", "\n", "  ", "\t", "\x1c", "\u2028", '"', "\\", "\x00", "", "ignore",
     "previous instructions", "glpat-", "aB3dE5gH7jK9mN1pQ3sT5vX7", "A" * 70, "n12", "\U0001f600"]
)  # fmt: skip
TEXTS = st.lists(TEXT_STRATEGY | st.text(max_size=4), max_size=6).map(" ".join)
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


@given(st.lists(FACTS, min_size=1, max_size=6), st.sampled_from(CALLERS), st.booleans())
@example([{"content": "  a \n b "}, {"content": "a b"}], CALLERS[0], False)
@example([{"content": "x", "title": ""}], CALLERS[1], True)
def test_facts_prepared_together_are_those_prepared_alone(
    sent: list[dict[str, Any]], caller: Principal, refuses: bool
) -> None:
    try:
        bodies = FactsIn.model_validate({"facts": sent}).facts
    except ValueError:
        return
    store = MemoryStore()
    if refuses:
        store.put_scope(LEAD, ScopeConfig(secrets="Refuse"), actor=PERSON)
    combined = prepared(lambda: fact_validation.prepare_facts(store, caller, bodies))
    alone = prepared(lambda: [fact_validation.prepare_fact(store, caller, body) for body in bodies])
    assert combined == alone


def prepared(task: Any) -> Any:
    """Return the facts with what is worked out of them, or the refusal."""
    try:
        new: list[NewFact] = task()
    except ServiceError as exc:
        return type(exc), exc.detail
    for fact in new:
        assert fact.terms in (None, term_ids.term_ids_of(fact.rendering))
    return [(fact, fact.content_hash, fact.key_hash, fact.rendering) for fact in new]


@given(st.lists(TEXTS, max_size=6))
def test_signs_of_texts_together_are_those_of_each(texts: list[str]) -> None:
    for _ in range(2):  # the second time the words are known
        assert list(text_screening.screen_all(texts)) == [
            text_screening.screen(text) for text in texts
        ]


def test_most_facts_of_a_batch_need_no_look_of_their_own() -> None:
    texts = [FactText("fact", text, None, ()) for text in corpora.ordinary(200)]
    analyse_batch = batch_analysis.analyse_batch(texts)
    assert sum(hashe is not None for hashe in analyse_batch.hashes) > len(texts) * 0.3


@pytest.mark.parametrize(
    "more",
    [{"data": 1}, {"subject": "s"}, {"run": "r"}, {"about": "f"}, {"valid_from": "2030-01-01"},
     {"aliases": [{"namespace": "ko", "value": "x"}]}, {"source": {}}, {"expiresAt": None}],
)  # fmt: skip
def test_fact_that_says_more_than_text_is_prepared_alone(more: dict[str, Any]) -> None:
    assert facts.text_of(FactIn.model_validate({"content": "x", **more})) is None


def test_empty_title_is_no_secret() -> None:
    store = MemoryStore()
    store.put_scope(LEAD, ScopeConfig(secrets="Refuse"), actor=PERSON)
    fact = fact_validation.prepare_fact(
        store, CALLERS[1], FactIn(content="the build is red", title="")
    )
    assert fact.title is None
