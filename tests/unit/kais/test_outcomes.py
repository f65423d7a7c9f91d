import pytest
from hypothesis import given
from hypothesis import strategies as st

from kais import outcomes
from kais.outcomes import Counts, Outcome


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        (0, 10, 0.0, 0.27753),
        (1, 1, 0.20655, 1.0),
        (5, 10, 0.23659, 0.76341),
        (8, 10, 0.49016, 0.94331),
        (87, 100, 0.79024, 0.92240),
    ],
)
def test_interval_has_known_values(successes, trials, low, high):
    assert outcomes.wilson(successes, trials) == pytest.approx((low, high), abs=1e-4)


@given(st.integers(0, 1000), st.integers(1, 1000))
def test_interval_holds_the_share_and_stays_within_0_and_1(successes, more):
    trials = successes + more
    low, high = outcomes.wilson(successes, trials)
    assert 0 <= low <= successes / trials <= high <= 1


def test_nothing_counted_gives_no_rate():
    counts = Counts(running=2, excluded=3)
    assert counts.uses == 5
    assert counts.success_rate is None
    assert counts.interval is None


def test_excluded_runs_are_uses_and_in_no_rate():
    counts = Counts(running=1, succeeded=3, failed=1, excluded=4)
    assert counts.uses == 9
    assert counts.success_rate == 0.75


def test_impossible_counts_are_refused():
    with pytest.raises(ValueError, match="3 successes of 2 trials cannot be"):
        outcomes.wilson(3, 2)


@pytest.mark.parametrize(
    ("outcome", "classes"),
    [
        (Outcome.SUCCEEDED, (True, False, False)),
        (Outcome.FAILED, (False, True, False)),
        (Outcome.TIMED_OUT, (False, True, False)),
        (Outcome.BUDGET_EXCEEDED, (False, True, False)),
        (Outcome.CANCELLED, (False, False, True)),
        (Outcome.INFRASTRUCTURE_FAILED, (False, False, True)),
    ],
)
def test_every_outcome_is_in_exactly_one_class(outcome, classes):
    results = (
        outcomes.is_success(outcome),
        outcomes.is_failure(outcome),
        outcomes.is_excluded(outcome),
    )
    assert results == classes
