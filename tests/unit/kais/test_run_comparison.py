"""Comparisons of groups of runs: the sentence, Newcombe's interval, medians by bootstrap."""

from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kais import run_comparison
from kais.run_comparison import Group


@pytest.mark.parametrize(
    ("with_knowledge", "without", "sentence"),
    [
        (
            *((18, 20), (11, 20)),
            "With knowledge 18 of 20, without 11 of 20: 35 points more, between 7 and 57.",
        ),
        (
            *((11, 20), (18, 20)),
            "With knowledge 11 of 20, without 18 of 20: 35 points fewer, between 7 and 57.",
        ),
        (
            *((10, 20), (10, 20)),
            (
                "With knowledge 10 of 20, without 10 of 20: no clear difference, between 28 points"
                " fewer and 28 more."
            ),
        ),
        ((4, 4), (0, 50), "Too few runs to tell."),
        ((50, 50), (0, 4), "Too few runs to tell."),
        ((0, 0), (0, 0), "Too few runs to tell."),
    ],
)
def test_sentence_says_what_knowledge_changes(
    with_knowledge: tuple[int, int], without: tuple[int, int], sentence: str
) -> None:
    assert run_comparison.sentence(Group(*with_knowledge), Group(*without)) == sentence


def test_newcombes_interval_is_that_of_his_paper() -> None:
    # Newcombe 1998, table II, method 10: contrasts 56/70 - 48/80 and 10/10 - 0/10.
    difference = run_comparison.newcombe(Group(56, 70), Group(48, 80))
    assert difference is not None
    assert (round(difference.low, 4), round(difference.high, 4)) == (0.0524, 0.3339)
    certain = run_comparison.newcombe(Group(10, 10), Group(0, 10))
    assert certain is not None
    assert (round(certain.low, 4), certain.high) == (0.6075, 1.0)


def test_smaller_error_widens_the_interval() -> None:
    wide = run_comparison.newcombe(Group(18, 20), Group(11, 20), error=0.0125)
    narrow = run_comparison.newcombe(Group(18, 20), Group(11, 20))
    assert wide is not None
    assert narrow is not None
    assert wide.low < narrow.low < narrow.high < wide.high


@st.composite
def groups(draw: st.DrawFn) -> Group:
    counted = draw(st.integers(1, 400))
    return Group(draw(st.integers(0, counted)), counted)


@given(groups(), groups())
def test_interval_contains_the_difference_and_turns_with_it(first: Group, second: Group) -> None:
    forward, backward = (
        run_comparison.newcombe(first, second),
        run_comparison.newcombe(second, first),
    )
    assert forward is not None
    assert backward is not None
    assert -1 <= forward.low <= forward.value <= forward.high <= 1
    assert forward.low == pytest.approx(-backward.high)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60))
def test_interval_of_a_median_contains_it_and_is_the_same_each_time(values: list[float]) -> None:
    median = run_comparison.median(values)
    assert median is not None
    assert min(values) <= median.low <= median.value <= median.high <= max(values)
    assert run_comparison.median(list(reversed(values))) == median


def test_no_values_have_no_median() -> None:
    assert run_comparison.median([]) is None


@pytest.mark.parametrize("count", [9, 20, 61])
def test_interval_of_a_median_is_that_of_a_bootstrap_by_drawing(count: int) -> None:
    generator = random.Random(count)  # noqa: S311 (no secret)
    values = [float(n) for n in range(count)]
    drawn = sorted(statistics.median(generator.choices(values, k=count)) for _ in range(4000))
    median = run_comparison.median(values)
    assert median is not None
    assert median.low == pytest.approx(drawn[100], abs=1 + count / 60)
    assert median.high == pytest.approx(drawn[-101], abs=1 + count / 60)
