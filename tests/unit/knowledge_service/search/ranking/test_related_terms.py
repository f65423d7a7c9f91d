"""Related terms in the text score: each concept of a query counts once, as its best term."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_service.search.query import expansion
from knowledge_service.search.ranking import bm25
from knowledge_service.search.ranking.bm25 import Related, Scores
from knowledge_service.search.text import term_ids
from tests.fakes import recall_snapshot

FILLER = ["mast", "mole", "moor"]
RELATED = {"reboot": ("restart",), "recycle": ("restart",)}


def scores_of(
    texts: Sequence[str], query: Mapping[str, float], related: Related = RELATED
) -> Scores:
    documents = [
        term_ids.document(number, Counter(text.split())) for number, text in enumerate(texts, 1)
    ]
    return recall_snapshot.scored({1: documents}, query, related)


def text_scores(scores: Scores, count: int) -> list[float]:
    values: list[float] = scores.text_scores(np.arange(count, dtype=np.int64)).tolist()
    return values


QUERY = {"restart": 1.0, "node": 1.0, "reboot": 0.8, "recycle": 0.8}


def test_a_related_term_is_not_added_to_the_term_of_the_query() -> None:
    texts = ["restart node", "restart reboot", "mast mole", "reboot mole"]
    scores = scores_of(texts, QUERY)
    alone = scores_of(texts, {"restart": 1.0}, {})
    assert math.isclose(text_scores(scores, 4)[1], float(alone.values[1]))
    assert scores.values[1] > text_scores(scores, 4)[1], "matching adds them up"


def test_of_several_related_terms_the_best_counts() -> None:
    texts = ["reboot recycle", "reboot mast", "recycle mast", "restart mast"]
    both, first, second, _ = text_scores(scores_of(texts, QUERY), 4)
    assert math.isclose(both, max(first, second))


def test_a_rare_related_term_counts_as_if_it_were_as_frequent_as_the_term_of_the_query() -> None:
    texts = ["restart mast"] * 20 + ["reboot mast"] + ["mole moor"] * 20
    values = text_scores(scores_of(texts, QUERY), len(texts))
    assert math.isclose(values[20], 0.8 * values[0])


def test_rare_related_terms_do_not_keep_the_terms_of_a_query_from_being_matched() -> None:
    rare = ["reboot", "recycle"]
    texts = ["restart mast"] * 40 + ["node mole"] * 40 + [" ".join(rare)] * 3 + ["restart node"]
    scores = scores_of(texts, QUERY)
    number = len(texts)
    assert number in scores.best(1)[0].tolist()


@pytest.mark.parametrize("order", list(itertools.permutations(["permit", "accept", "grant"])))
def test_the_order_of_the_words_of_a_query_changes_no_score(order: tuple[str, ...]) -> None:
    texts = ["permit accept", "permit mast", "accept mole", "grant moor", "grant accept mast"]
    expanded = expansion.expand_terms(order[:2])
    scores = scores_of(texts, expanded.weights, expanded.related)
    expected = expansion.expand_terms(tuple(sorted(order[:2])))
    sorted_scores = scores_of(texts, expected.weights, expected.related)
    assert text_scores(scores, 5) == text_scores(sorted_scores, 5)


def test_a_frequent_related_term_keeps_its_own_weight() -> None:
    texts = ["restart mast"] + ["reboot mast"] * 20 + ["mole moor"] * 20
    scores = scores_of(texts, QUERY)
    assert math.isclose(text_scores(scores, len(texts))[1], float(scores.values[1]))


def test_without_related_terms_the_text_score_is_the_sum() -> None:
    texts = ["restart node", "restart mast", "node mole"]
    scores = scores_of(texts, {"restart": 1.0, "node": 1.0}, {})
    assert np.allclose(text_scores(scores, 3), scores.values)


MESSAGES = [*QUERY, *FILLER]
TEXTS = st.lists(
    st.lists(st.sampled_from(MESSAGES), min_size=1, max_size=8).map(" ".join),
    min_size=1,
    max_size=12,
)


@given(TEXTS)
def test_the_shares_of_the_terms_add_up_to_the_text_score(texts: list[str]) -> None:
    scores = scores_of(texts, QUERY)
    for number, value in enumerate(text_scores(scores, len(texts)), 1):
        parts = scores.parts(number)
        assert math.isclose(sum(parts.values()), value, abs_tol=1e-12)
        assert len({RELATED.get(term, (term,)) for term in parts}) == len(parts)


@given(TEXTS)
def test_scopes_that_are_weighed_apart_have_the_scores_of_those_weighed_together(
    texts: list[str],
) -> None:
    documents = [
        term_ids.document(number, Counter(text.split())) for number, text in enumerate(texts, 1)
    ]
    scopes = {scope_no: documents[scope_no - 1 :: 3] for scope_no in (1, 2, 3)}
    scopes = {scope_no: of_scope for scope_no, of_scope in scopes.items() if of_scope}
    together = recall_snapshot.scored(scopes, QUERY, RELATED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bm25, "_BATCH_POSTINGS", 1)
        apart = recall_snapshot.scored(scopes, QUERY, RELATED)
    assert len(together.batches) == 1
    assert apart.values.tolist() == together.values.tolist()
    assert text_scores(apart, len(texts)) == text_scores(together, len(texts))
    last = np.array([len(texts) - 1])
    assert apart.text_scores(last).tolist() == text_scores(together, len(texts))[-1:]


@given(TEXTS, st.sampled_from([*RELATED]))
def test_a_related_term_never_lowers_the_score_nor_outweighs_the_term_of_the_query(
    texts: list[str], term: str
) -> None:
    related = {term: ("restart",)}
    query = {"restart": 1.0, "node": 1.0}
    without = text_scores(scores_of(texts, query, {}), len(texts))
    values = text_scores(scores_of(texts, {**query, term: 0.8}, related), len(texts))
    for text, value, before in zip(texts, values, without, strict=True):
        assert value >= before - 1e-12
        if term not in text.split():
            assert math.isclose(value, before, abs_tol=1e-12)
