from datetime import UTC, datetime, timedelta

import pytest

from kais import conditions
from kais.conditions import ConditionSet, ConditionType, Reason

NOW = datetime(2030, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)
LATER_TIME = NOW + timedelta(minutes=5)


def merged(expected, previous=(), *, generation=1, now=NOW):
    return conditions.merge(previous, expected, generation=generation, now=now)


def test_time_moves_only_when_the_status_flips():
    first = merged([conditions.false(ConditionType.APPLIED, Reason.NAME_TAKEN, "taken")])
    same = merged(
        [conditions.false(ConditionType.APPLIED, Reason.APPLY_FAILED, "refused")],
        first,
        now=LATER_TIME,
    )
    assert same[0].last_transition_time == first[0].last_transition_time
    assert same[0].message == "refused"
    flipped = merged(
        [conditions.true(ConditionType.APPLIED, Reason.APPLIED, "there")], same, now=LATER_TIME
    )
    assert flipped[0].last_transition_time == LATER_TIME.replace(microsecond=0)


def test_condition_goes_from_true_to_false_to_true():
    good = conditions.true(ConditionType.POD_READY, Reason.POD_RUNNING, "runs")
    bad = conditions.false(ConditionType.POD_READY, Reason.IMAGE_PULL_FAILED, "no such image")
    first = merged([good])
    second = merged([bad], first, now=LATER_TIME)
    third = merged([good], second, now=LATER_TIME + timedelta(minutes=1))
    assert [c[0].status for c in (first, second, third)] == ["True", "False", "True"]
    times = [c[0].last_transition_time for c in (first, second, third)]
    assert times == sorted(set(times))


def test_what_is_not_wanted_any_more_is_gone():
    first = merged([conditions.true(ConditionType.APPLIED, Reason.APPLIED, "x")])
    assert merged([], first) == []


def test_every_condition_carries_the_generation():
    first = merged([conditions.true(ConditionType.APPLIED, Reason.APPLIED, "x")], generation=3)
    assert first[0].observed_generation == 3


def test_empty_message_becomes_the_reasons_meaning():
    (created,) = merged([conditions.true(ConditionType.APPLIED, Reason.APPLIED, "  ")])
    assert created.message == Reason.APPLIED.meaning


def test_long_message_is_cut_to_the_fields_bound():
    (created,) = merged([conditions.true(ConditionType.APPLIED, Reason.APPLIED, "x" * 5000)])
    assert len(created.message) == 4096
    assert created.message.endswith("…")


def test_what_is_written_equals_what_is_read_back():
    (created,) = merged([conditions.true(ConditionType.APPLIED, Reason.APPLIED, "x")])
    assert conditions.Condition.from_dict(created.to_dict()) == created
    assert created.to_dict()["lastTransitionTime"] == "2030-01-31T12:00:00Z"


@pytest.mark.parametrize(
    ("wanted", "status", "message"),
    [
        pytest.param(
            [conditions.true("A", Reason.APPLIED, "a")], "True", "all well", id="all true is ready"
        ),
        pytest.param(
            [
                conditions.unknown("A", Reason.RECONCILING, "wait"),
                conditions.false("B", Reason.POD_FAILED, "pod x fell over"),
            ],
            "False",
            "B: pod x fell over",
            id="a false one is told before an unknown one",
        ),
        pytest.param(
            [conditions.unknown("A", Reason.RECONCILING, "wait")],
            "Unknown",
            "A: wait",
            id="an unknown one leaves it unknown",
        ),
    ],
)
def test_summary_is_computed_from_the_others(wanted, status, message):
    desired_condition = conditions.summary(wanted, message="all well")
    assert (desired_condition.type, desired_condition.status, desired_condition.message) == (
        "Ready",
        status,
        message,
    )


def test_set_keeps_the_order_and_the_summary_last():
    condition_set = ConditionSet()
    condition_set.true(ConditionType.APPLIED, Reason.APPLIED, "written")
    condition_set.unknown(ConditionType.CELLS_READY, Reason.WAITING_FOR_CELLS, "waiting for lead-0")
    condition_set.summarise("the team can work")
    condition_set.true(ConditionType.CELLS_READY, Reason.CELLS_READY, "all ready")
    condition_set.summarise("the team can work")
    merge = condition_set.merge([], generation=1, now=NOW)
    assert [c.type for c in merge] == ["Applied", "CellsReady", "Ready"]
    assert merge[-1].message == "the team can work"
    assert condition_set.is_true(ConditionType.READY)


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_is_documented_camel_case(reason):
    assert reason.value[0].isupper()
    assert reason.value.isalnum()
    assert len(reason.meaning.split()) >= 3
