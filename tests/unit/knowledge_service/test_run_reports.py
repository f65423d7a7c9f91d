"""How reports about one run are merged, and what its outcome credits: sentence and case."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from knowledge_client.models import Fact, Ref, Run, RunIn, Source
from knowledge_service.domain import run_reports
from knowledge_service.domain.run_reports import RunMismatch, merge_run, usage_kind_of_outcome
from knowledge_service.errors import InvalidBody

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
EARLIER = NOW - timedelta(hours=1)


def report(**values: Any) -> RunIn:
    required = {"kind": "mission", "namespace": "demo", "scope": "realm:demo/formation:team"}
    return RunIn(**(required | values))


def opened(**values: Any) -> Run:
    return merge_run("run-1", None, report(**values), EARLIER)


def test_the_first_report_opens_the_run() -> None:
    run = opened()
    assert (run.run_id, run.opened_at, run.closed_at, run.outcome) == ("run-1", EARLIER, None, None)


def test_a_report_with_an_outcome_closes_the_run() -> None:
    run = merge_run("run-1", opened(), report(outcome="Succeeded"), NOW)
    assert (run.outcome, run.closed_at, run.opened_at) == ("Succeeded", NOW, EARLIER)


def test_a_run_may_be_opened_and_closed_by_one_report() -> None:
    assert opened(outcome="Failed").closed_at == EARLIER


def test_what_a_report_leaves_out_stays() -> None:
    run = merge_run("run-1", opened(mission="backup"), report(blueprint="review"), NOW)
    assert (run.mission, run.blueprint) == ("backup", "review")


def test_a_late_opening_fills_what_a_closed_run_misses_and_changes_nothing_else() -> None:
    closed = opened(outcome="Succeeded", mission="backup")
    run = merge_run("run-1", closed, report(mission="other", blueprint="review"), NOW)
    assert (run.mission, run.blueprint, run.outcome) == ("backup", "review", "Succeeded")
    assert run.closed_at == EARLIER


def test_counters_of_all_reports_are_kept_the_newest_of_a_name() -> None:
    run = merge_run("run-1", opened(counters={"a": 1, "b": 1}), report(counters={"b": 2}), NOW)
    assert run.counters == {"a": 1, "b": 2}


MISMATCHES = {
    "another kind": ({"kind": "session"}, "kind"),
    "another namespace": ({"namespace": "other"}, "namespace"),
    "another scope": ({"scope": "realm:demo/formation:plain"}, "scope"),
}


@pytest.mark.parametrize(("values", "field"), MISMATCHES.values(), ids=MISMATCHES)
def test_a_report_about_another_run_is_refused(values: dict[str, Any], field: str) -> None:
    with pytest.raises(RunMismatch) as caught:
        merge_run("run-1", opened(), report(**values), NOW)
    assert caught.value.field == field


def test_a_closed_run_takes_no_other_outcome() -> None:
    with pytest.raises(RunMismatch, match="outcome is Succeeded"):
        merge_run("run-1", opened(outcome="Succeeded"), report(outcome="Failed"), NOW)


def test_too_many_counters_are_refused_with_their_number() -> None:
    many = {f"c{n}": n for n in range(65)}
    with pytest.raises(InvalidBody, match="65 counters, at most 64"):
        merge_run("run-1", opened(), report(counters=many), NOW)


CREDITS: dict[str, tuple[str | None, str, str | None]] = {
    "an open run credits nothing": (None, "system", None),
    "a success credits its facts": ("Succeeded", "system", "succeeded"),
    "a failure counts against them": ("Failed", "system", "failed"),
    "a timeout counts against them": ("TimedOut", "system", "failed"),
    "a cancelled run says nothing": ("Cancelled", "system", None),
    "an infrastructure failure says nothing": ("InfrastructureFailed", "system", None),
    "a person may close a run, too": ("Succeeded", "human", "succeeded"),
    "an agent credits nothing by closing its own run": ("Succeeded", "agent", None),
}


@pytest.mark.parametrize(("outcome", "closed_by", "kind"), CREDITS.values(), ids=CREDITS)
def test_what_an_outcome_credits(outcome: str | None, closed_by: Any, kind: str | None) -> None:
    assert usage_kind_of_outcome(opened(outcome=outcome), closed_by) == kind


@pytest.mark.parametrize(
    ("refs", "expected"),
    [((Ref(type="run", id="run-1"),), True), ((Ref(type="run", id="run-2"),), False), ((), False)],
    ids=["learnt in the run", "learnt in another", "without references"],
)
def test_a_runs_own_facts(refs: tuple[Ref, ...], expected: bool) -> None:
    fact = Fact(
        id="f", scope="realm:demo", kind="fact", content="x", confidence=0.5,
        source=Source(refs=refs), recorded_at=NOW,
    )  # fmt: skip
    assert run_reports.is_own("run-1", fact) is expected


@pytest.mark.parametrize(
    ("started", "finished", "expected"),
    [(EARLIER, NOW, 3600.0), (None, NOW, None), (EARLIER, None, None)],
    ids=["both times", "no start", "no end"],
)
def test_a_duration_needs_both_times(
    started: datetime | None, finished: datetime | None, expected: float | None
) -> None:
    run = opened().model_copy(update={"started_at": started, "finished_at": finished})
    assert run_reports.duration_s(run) == expected
