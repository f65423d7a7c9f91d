"""Which words the second hop follows, and where its results stand."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_service.search import second_hop
from knowledge_service.search.ranking.ranking import Ranked
from knowledge_service.search.text import term_ids
from tests.fakes.recall_snapshot import scored
from tests.unit.knowledge_service.search.candidate_rows import candidate


def ranked(*scores: float, first: int = 1) -> list[Ranked]:
    return [
        Ranked(number, score, {"bm25": score, "x_recency": 1.0})
        for number, score in enumerate(scores, first)
    ]


def documents_with(counts: dict[str, int], *, total: int = 200) -> dict[int, list[tuple[int, ...]]]:
    terms = [[term for term, count in counts.items() if number < count] for number in range(total)]
    return {1: [term_ids.document(number, Counter(each)) for number, each in enumerate(terms)]}


def test_terms_of_the_question_and_names_of_speakers_are_no_new_terms() -> None:
    best = [candidate("Anna: Tromso was dark"), candidate("Bruno: dark, and cold, says Anna")]
    assert second_hop.new_terms(best, {"cold"}) == {"tromso": 1, "dark": 2, "say": 1, "anna": 1}


def test_terms_of_several_of_the_best_come_first_then_the_rarest() -> None:
    counts = Counter({"common": 3, "lone": 3, "shared": 2, "rare": 1, "rarest": 1})
    index = documents_with({"common": 150, "lone": 1, "shared": 4, "rare": 3, "rarest": 2})
    terms = second_hop.rare_terms(counts, scored(index, dict.fromkeys(counts, 1.0)))
    assert list(terms) == ["shared", "rarest", "rare"]
    assert set(terms.values()) == {second_hop.WEIGHT}


def test_hop_follows_at_most_twelve_terms() -> None:
    counts = Counter({f"term{number}": 1 for number in range(30)})
    index = documents_with(dict.fromkeys(counts, 2))
    assert len(second_hop.rare_terms(counts, scored(index, dict.fromkeys(counts, 1.0)))) == 12


def test_best_results_stay_and_a_higher_score_behind_them_is_lowered_to_theirs() -> None:
    first = ranked(9, 8, 7, 6, 5, 4)
    second = ranked(20, 2, first=6)
    merged = second_hop.merge(first, second)
    assert [result.number for result in merged] == [1, 2, 3, 4, 5, 6, 7]
    assert merged[5].score == pytest.approx(5)
    assert merged[5].parts["x_hop"] == pytest.approx(5 / 20)
    assert merged[6] == second[1]


@given(
    st.lists(st.floats(0.1, 50), min_size=1, max_size=12),
    st.lists(st.floats(0.1, 50), max_size=12),
)
def test_merged_scores_fall_and_equal_their_parts(first: list[float], second: list[float]) -> None:
    best = ranked(*sorted(first, reverse=True))
    others = ranked(*sorted(second, reverse=True), first=second_hop.UNCHANGED_RESULTS)
    merged = second_hop.merge(best, others)
    scores = [result.score for result in merged]
    assert scores == sorted(scores, reverse=True)
    assert len({result.number for result in merged}) == len(merged)
    kept = best[: second_hop.UNCHANGED_RESULTS]
    assert merged[: len(kept)] == kept
    for result in merged:
        factors = [value for name, value in result.parts.items() if name.startswith("x_")]
        assert result.score == pytest.approx(result.parts["bm25"] * math.prod(factors))
