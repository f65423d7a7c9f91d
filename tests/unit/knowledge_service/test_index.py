from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_service.index import analyser, postings, scorer

ROWS = st.dictionaries(
    st.integers(0, 10_000), st.tuples(st.integers(1, 50), st.integers(1, 900)), max_size=40
).map(lambda rows: [(fact, *rows[fact]) for fact in sorted(rows)])


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The pods were failing", {"pod", "fail"}),
        ("ImagePullBackOff", {"=imagepullbackoff", "imag", "pull", "back"}),
        ("max_open_files", {"=max_open_files", "max", "open", "file"}),
        ("pkg/mod.py", {"=pkg/mod.py", "pkg", "mod", "py"}),
        ("E1234", {"=e1234", "e", "1234"}),
        ("HTTPServer", {"=httpserver", "http", "server"}),
        ("größe", {"grösse"}),
        ("what is the of", set()),
        ("", set()),
    ],
)
def test_text_becomes_terms(text: str, terms: set[str]) -> None:
    assert set(analyser.terms(text)) == terms


@given(ROWS.filter(bool))
def test_blocks_give_back_what_was_packed(rows: list[tuple[int, int, int]]) -> None:
    assert postings.rows(len(rows), postings.pack(rows)) == rows


@given(st.dictionaries(st.sampled_from("abcd"), ROWS))
def test_sparse_and_dense_scoring_agree_to_the_bit(
    terms: dict[str, list[tuple[int, int, int]]],
) -> None:
    query = {term: postings.join([postings.from_rows(rows)]) for term, rows in terms.items()}
    statistics = scorer.Statistics(20_000, 1_000_000)
    dense = scorer.score(query, statistics)
    span = scorer._DENSE_SPAN
    scorer._DENSE_SPAN = 0
    try:
        sparse = scorer.score(query, statistics)
    finally:
        scorer._DENSE_SPAN = span
    assert dense.facts.tolist() == sparse.facts.tolist()
    assert dense.values.tolist() == sparse.values.tolist()


@given(st.lists(st.sampled_from([1.0, 2.0, 3.0]), max_size=30), st.integers(1, 10))
def test_best_come_first_whatever_is_sorted_at_once(values: list[float], first: int) -> None:
    scores = scorer.Scores(np.arange(len(values)), np.array(values, dtype=np.float64))
    expected = sorted(range(len(values)), key=lambda n: (-values[n], n))
    assert [fact for fact, _ in scores.best_first(first)] == expected


def test_rare_terms_weigh_more() -> None:
    query = {
        "rare": postings.join([postings.from_rows([(1, 1, 10)])]),
        "common": postings.join([postings.from_rows([(n, 1, 10) for n in range(1, 9)])]),
    }
    ranked = list(scorer.score(query, scorer.Statistics(10, 100)).best_first(3))
    assert ranked[0][0] == 1
    assert [fact for fact, _ in ranked[1:]] == [2, 3, 4, 5, 6, 7, 8]
