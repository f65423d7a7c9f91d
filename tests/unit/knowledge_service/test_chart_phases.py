"""The phase of a chart after each act: a sentence for each transition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from knowledge_client.models import Act, RememberAct, ReviseAct
from knowledge_service.domain import chart_plans
from knowledge_service.domain.chart_plans import StepTitle, Writer
from knowledge_service.domain.charts import CHART, OUTCOME, REALITY, STEP, Origin, Part, StoredChart

NOW = datetime(2026, 5, 1, tzinfo=UTC)
WRITER = Writer("realm:demo", None, NOW)
GERMINATION, ASSIMILATION, COMPLETION = "germination", "assimilation", "completion"
Plan = Callable[[StoredChart], Sequence[Act]]


def part(fact_id: str, type_: str, *observations: str, **data: Any) -> Part:
    observed = tuple((f"{fact_id} {number}", text) for number, text in enumerate(observations))
    title_id = observed[0][0] if observed else None
    return Part(fact_id, fact_id, type_, observed, data, len(observed), title_id)


def chart(phase: str, *open_steps: bool, chart_id: str = "c") -> StoredChart:
    """Return a chart with steps that are open, or complete."""
    return StoredChart(
        chart_id,
        "realm:demo",
        part(f"{chart_id} chart", CHART, "Chart created", phase=phase),
        part(f"{chart_id} outcome", OUTCOME, "Five songs"),
        part(f"{chart_id} reality", REALITY, "I own no guitar."),
        tuple(
            part(f"{chart_id} step {number}", STEP, f"Step {number}", completionStatus=not is_open)
            for number, is_open in enumerate(open_steps)
        ),
    )


def phase_after(stored: StoredChart, acts: Sequence[Act]) -> Any:
    """Return the phase of a chart after the revisions of its entity."""
    data = dict(stored.chart.data)
    for act in acts:
        if isinstance(act, ReviseAct) and act.fact == stored.chart.fact_id:
            data |= act.changes.data
    return data["phase"]


def progress(stored: StoredChart) -> Sequence[Act]:
    return chart_plans.plan_progress(
        stored, stored.steps[0], "I compared three.", WRITER, in_reality=False
    )


def progress_in_reality(stored: StoredChart) -> Sequence[Act]:
    return chart_plans.plan_progress(
        stored, stored.steps[0], "I compared three.", WRITER, in_reality=True
    )


def completion(stored: StoredChart) -> Sequence[Act]:
    return chart_plans.plan_completion(stored, stored.steps[0], (), WRITER)


def completion_of_all(stored: StoredChart) -> Sequence[Act]:
    return chart_plans.plan_completion(stored, None, (), WRITER)


def completion_below(stored: StoredChart) -> Sequence[Act]:
    """Complete the chart that the first step was telescoped into."""
    below = chart(GERMINATION, True, chart_id="below")
    origin = Origin(stored, stored.steps[0])
    return chart_plans.plan_completion(below, below.steps[0], (origin,), WRITER)


def change(**changes: Any) -> Plan:
    rest = {"outcome": None, "realities": (), "due": None, "phase": None}
    return lambda stored: chart_plans.plan_changes(stored, WRITER, **{**rest, **changes})


def added_step(stored: StoredChart) -> Sequence[Act]:
    return chart_plans.plan_step(stored, StepTitle("Sing"), WRITER)


def telescoped_step(stored: StoredChart) -> Sequence[Act]:
    origin = Origin(stored, stored.steps[0])
    return chart_plans.plan_creation("below", ("Step 0", "None"), NOW, (), WRITER, origin)


def removed_step(stored: StoredChart) -> Sequence[Act]:
    return chart_plans.plan_removal([stored.steps[0]])


TRANSITIONS: dict[str, tuple[StoredChart, Plan, str]] = {
    "progress on a step begins the assimilation": (
        chart(GERMINATION, True, True), progress, ASSIMILATION,
    ),
    "progress that is observed in the reality begins the assimilation": (
        chart(GERMINATION, True, True), progress_in_reality, ASSIMILATION,
    ),
    "progress during the assimilation changes no phase": (
        chart(ASSIMILATION, True, True), progress, ASSIMILATION,
    ),
    "progress on the last step completes nothing": (
        chart(ASSIMILATION, True, False), progress, ASSIMILATION,
    ),
    "progress keeps a completion that was set by hand": (
        chart(COMPLETION, True), progress, COMPLETION,
    ),
    "a new observation of the reality begins the assimilation": (
        chart(GERMINATION, True), change(realities=("I own one.",)), ASSIMILATION,
    ),
    "a repeated observation of the reality changes no phase": (
        chart(GERMINATION, True), change(realities=("I own no guitar.",)), GERMINATION,
    ),
    "an observation of the reality during the assimilation changes no phase": (
        chart(ASSIMILATION, True), change(realities=("I own one.",)), ASSIMILATION,
    ),
    "an observation of the reality keeps a completion": (
        chart(COMPLETION, False), change(realities=("It sounds.",)), COMPLETION,
    ),
    "another outcome changes no phase": (
        chart(GERMINATION, True), change(outcome="Ten songs"), GERMINATION,
    ),
    "another due date changes no phase": (chart(GERMINATION, True), change(due=NOW), GERMINATION),
    "an added step changes no phase": (chart(GERMINATION, True), added_step, GERMINATION),
    "a telescoped step changes no phase": (chart(GERMINATION, True), telescoped_step, GERMINATION),
    "a removed step changes no phase, also the last open one": (
        chart(ASSIMILATION, True, False), removed_step, ASSIMILATION,
    ),
    "the first completed step begins the assimilation": (
        chart(GERMINATION, True, True), completion, ASSIMILATION,
    ),
    "a further completed step changes no phase": (
        chart(ASSIMILATION, True, True, False), completion, ASSIMILATION,
    ),
    "a completed step keeps a completion that was set by hand": (
        chart(COMPLETION, True, True), completion, COMPLETION,
    ),
    "the last completed step completes the chart": (
        chart(ASSIMILATION, True, False), completion, COMPLETION,
    ),
    "the only step completes a chart in germination": (
        chart(GERMINATION, True), completion, COMPLETION,
    ),
    "the outcome completes the chart, whatever its steps are": (
        chart(GERMINATION, True, True), completion_of_all, COMPLETION,
    ),
    "a completed chart below begins the assimilation of the chart above": (
        chart(GERMINATION, True, True), completion_below, ASSIMILATION,
    ),
    "a completed chart below the last step completes the chart above": (
        chart(ASSIMILATION, True, False), completion_below, COMPLETION,
    ),
    "germination is set by hand, also after completion": (
        chart(COMPLETION, False), change(phase=GERMINATION), GERMINATION,
    ),
    "assimilation is set by hand": (
        chart(GERMINATION, True), change(phase=ASSIMILATION), ASSIMILATION,
    ),
    "completion is set by hand while steps are open": (
        chart(GERMINATION, True), change(phase=COMPLETION), COMPLETION,
    ),
    "a phase by hand wins over an observation of the same call": (
        chart(ASSIMILATION, True), change(phase=GERMINATION, realities=("New",)), GERMINATION,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("stored", "plan", "phase"), TRANSITIONS.values(), ids=TRANSITIONS)
def test_phase(stored: StoredChart, plan: Plan, phase: str) -> None:
    assert phase_after(stored, plan(stored)) == phase


def test_a_new_chart_is_in_germination() -> None:
    acts = chart_plans.plan_creation("c", ("Five songs", "None"), NOW, (StepTitle("Buy"),), WRITER)
    first = acts[0]
    assert isinstance(first, RememberAct)
    assert first.fact.data["phase"] == GERMINATION


STEP_PHASES: dict[str, tuple[Plan, str | None]] = {
    "progress on a step begins its assimilation": (progress, ASSIMILATION),
    "a completed step is in completion": (completion, COMPLETION),
    "a completed chart below completes its step": (completion_below, COMPLETION),
    "a new observation of the reality changes no step": (change(realities=("I own one.",)), None),
    "a phase by hand changes no step": (change(phase=COMPLETION), None),
}


@pytest.mark.parametrize(("plan", "phase"), STEP_PHASES.values(), ids=STEP_PHASES)
def test_phase_of_a_step(plan: Plan, phase: str | None) -> None:
    stored = chart(GERMINATION, True, True)
    step = stored.steps[0]
    revisions = [
        act.changes.data["phase"]
        for act in plan(stored)
        if isinstance(act, ReviseAct) and act.fact == step.fact_id
    ]
    assert revisions == ([] if phase is None else [phase])
