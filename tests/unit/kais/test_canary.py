"""What the runs of a canary decide, look by look."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from kais import canary, labels
from kais.canary import Canary, Runs, Verdict
from kais.resources.blueprint import Rollout

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ROLLOUT = Rollout(min_runs=20, max_runs=100)
BEGUN = canary.begin(5, over=4, now=NOW)
STOPPED = replace(BEGUN, verdict=Verdict.STOPPED)
PROMOTED = replace(BEGUN, verdict=Verdict.PROMOTED)


@pytest.mark.parametrize(
    ("new", "old", "looks", "verdict"),
    [
        pytest.param(Runs(0, 0), Runs(0, 0), 0, None, id="without runs nothing is decided"),
        pytest.param(
            Runs(0, 19), Runs(500, 500), 0, None, id="below minRuns not even a disaster decides"
        ),
        pytest.param(
            Runs(19, 19), Runs(0, 500), 0, None, id="below minRuns not even a triumph decides"
        ),
        pytest.param(
            Runs(20, 20), Runs(40, 80), 1, Verdict.PROMOTED, id="a better one is promoted"
        ),
        pytest.param(Runs(2, 20), Runs(80, 80), 1, Verdict.REGRESSED, id="a worse one is stopped"),
        pytest.param(Runs(16, 20), Runs(64, 80), 1, None, id="an equal one waits at first"),
        pytest.param(Runs(20, 20), Runs(0, 0), 0, None, id="no old runs, no look"),
        pytest.param(
            Runs(50, 100), Runs(0, 0), 0, Verdict.UNDECIDED, id="maxRuns ends it without old runs"
        ),
        pytest.param(
            Runs(80, 100), Runs(320, 400), 4, Verdict.UNDECIDED, id="maxRuns ends an equal one"
        ),
        pytest.param(
            Runs(99, 100), Runs(380, 400), 4, Verdict.PROMOTED, id="maxRuns is the last look"
        ),
    ],
)
def test_a_canary_is_judged(new: Runs, old: Runs, looks: int, verdict: Verdict | None) -> None:
    judged = canary.judge(BEGUN, ROLLOUT, new=new, old=old)
    assert (judged.looks, judged.verdict) == (looks, verdict)


def test_a_look_is_taken_once() -> None:
    looked = canary.judge(BEGUN, ROLLOUT, new=Runs(16, 20), old=Runs(64, 80))
    later = canary.judge(looked, ROLLOUT, new=Runs(0, 39), old=Runs(80, 80))
    assert later == looked
    assert canary.judge(looked, ROLLOUT, new=Runs(0, 40), old=Runs(80, 80)).verdict == "Regressed"


def test_each_look_doubles_the_runs_and_the_last_has_max_runs() -> None:
    assert canary.look_sizes(ROLLOUT) == (20, 40, 80, 100)
    assert canary.look_sizes(Rollout(min_runs=7, max_runs=7)) == (7,)
    assert canary.next_look(replace(BEGUN, looks=2), ROLLOUT) == 80
    assert canary.next_look(replace(BEGUN, looks=4), ROLLOUT) == 100


def test_a_later_look_asks_for_more_evidence_than_the_first_one() -> None:
    new, old = Runs(10, 20), Runs(20, 24)
    first = canary.judge(BEGUN, Rollout(min_runs=20, max_runs=100), new=new, old=old)
    third = canary.judge(BEGUN, Rollout(min_runs=5, max_runs=100), new=new, old=old)
    assert first.verdict is Verdict.REGRESSED
    assert (third.verdict, third.looks) == (None, 3)


def test_the_margin_is_the_loss_that_is_accepted() -> None:
    runs = {"new": Runs(72, 80), "old": Runs(290, 320)}
    rules = {"min_runs": 80, "max_runs": 100}
    assert canary.judge(BEGUN, Rollout(margin=0.2, **rules), **runs).verdict == "Promoted"
    assert canary.judge(BEGUN, Rollout(margin=0.0, **rules), **runs).verdict is None


def test_an_ended_canary_is_not_judged_again() -> None:
    assert canary.judge(STOPPED, ROLLOUT, new=Runs(100, 100), old=Runs(0, 400)) == STOPPED


@pytest.mark.parametrize(
    ("current", "requested", "verdict"),
    [
        pytest.param(BEGUN, "promote 5", Verdict.PROMOTED, id="a person promotes"),
        pytest.param(BEGUN, "stop 5", Verdict.STOPPED, id="a person stops"),
        pytest.param(STOPPED, "promote 5", Verdict.PROMOTED, id="a stopped one can be promoted"),
        pytest.param(PROMOTED, "stop 5", Verdict.PROMOTED, id="a promoted one stays"),
        pytest.param(BEGUN, "promote 4", None, id="a request for another revision has no effect"),
        pytest.param(BEGUN, "destroy 5", None, id="an unknown request has no effect"),
        pytest.param(BEGUN, None, None, id="without a request it runs on"),
    ],
)
def test_a_person_decides(current: Canary, requested: str | None, verdict: Verdict | None) -> None:
    decided = canary.apply_request(current, requested, new=Runs(1, 2), old=Runs(3, 4))
    assert decided.verdict == verdict
    assert decided.by_hand == (decided != current)


def test_the_annotation_returns_what_was_written() -> None:
    ended = replace(PROMOTED, looks=2, by_hand=True, new=Runs(1, 2), old=Runs(3, 4))
    for state in (BEGUN, ended):
        assert canary.parse({labels.CANARY: canary.dump(state)}) == state


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"revision": 0}', '{"revision": 5}'])
def test_an_edited_annotation_is_no_canary(text: str) -> None:
    assert canary.parse({labels.CANARY: text}) is None


def test_a_share_of_uses_draws_the_canary_and_each_always_draws_the_same() -> None:
    uids = [f"uid-{number}" for number in range(2000)]
    drawn = [canary.is_drawn(uid, revision=5, percent=20) for uid in uids]
    assert drawn == [canary.is_drawn(uid, revision=5, percent=20) for uid in uids]
    assert 0.17 < sum(drawn) / len(drawn) < 0.23
    assert drawn != [canary.is_drawn(uid, revision=6, percent=20) for uid in uids]
