"""Structural tension charts, as entities of the graph; each call is one operation."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from knowledge_client.models import (
    Act,
    ActionStepIn,
    ActResult,
    AddedStepIn,
    Chart,
    ChartChanges,
    ChartIn,
    ChartPage,
    StepIn,
    StepProgressIn,
    TelescopeIn,
)
from knowledge_service import uuid7
from knowledge_service.domain import chart_plans, charts
from knowledge_service.domain.chart_plans import StepTitle, Writer
from knowledge_service.domain.charts import Origin, StoredChart
from knowledge_service.domain.principals import Principal
from knowledge_service.errors import Conflict, NotFound
from knowledge_service.ports import Listing
from knowledge_service.use_cases import arms, authorization, chart_reading, pagination
from knowledge_service.use_cases.graph import lookup, observations
from knowledge_service.use_cases.operations import Performer

if TYPE_CHECKING:
    from knowledge_service.ports import Store

_MAX_ATTEMPTS = 5


def create_chart(performer: Performer, body: ChartIn, now: datetime) -> Chart:
    """Create a chart.

    Raises:
        The errors of `Performer.perform`.
    """
    results = performer.earlier_results()
    if results is None:
        writer = Writer(body.scope, observations.source_of(performer.principal), now)
        texts = (body.desired_outcome, body.current_reality)
        acts = chart_plans.plan_creation(
            _new_id(now), texts, body.due_date, _titles(body.action_steps), writer
        )
        results = performer.perform(acts, "chart created")
    advice = charts.advise(body.desired_outcome, [body.current_reality])
    return _show_created(performer, results, advice)


def get_chart(store: Store, principal: Principal, chart_id: str) -> Chart:
    """Return a chart.

    Raises:
        NotFound: it does not exist, is not visible, or lacks one of its entities.
    """
    arms.require_facts(store, principal)
    return _show(store, principal, chart_id, ())


def list_charts(  # noqa: PLR0913 (one argument per filter)
    store: Store,
    principal: Principal,
    *,
    scope: str | None,
    completed: bool,
    due_before: datetime | None,
    cursor: str | None,
    limit: int,
) -> ChartPage:
    """Return a page of charts, last changed first; without `completed`, the active ones.

    With `due_before`, those that are due by then, or have an open step that is. A page may have
    fewer charts than the limit although there are more.

    Raises:
        InvalidBody: the cursor or the scope is malformed.
        ScopeForbidden: the named scope is out of reach.
    """
    scopes = authorization.authorize_read([scope], principal) if scope else None
    if arms.is_without_facts(store, principal):
        return ChartPage(charts=())
    listing = Listing(
        view=principal.view,
        limit=limit + 1,
        scopes=scopes,
        kind=lookup.ENTITY,
        lifecycle="live",
        schema=lookup.SCHEMA,
        subject=charts.CHART,
        before_id=pagination.decode(cursor),
    )
    facts, next_cursor = pagination.split_page(
        store.list_facts(listing), limit, lambda fact: fact.id
    )
    stored = [chart_reading.read(store, principal, fact) for fact in facts]
    listed_charts = [
        chart_reading.to_chart(store, principal, stored_chart)
        for stored_chart in stored
        if stored_chart is not None
    ]
    chosen = [
        chart
        for chart in listed_charts
        if (completed or not chart.completed) and (due_before is None or _is_due(chart, due_before))
    ]
    return ChartPage(charts=tuple(chosen), cursor=next_cursor)


def add_step(performer: Performer, chart_id: str, body: AddedStepIn, now: datetime) -> Chart:
    """Add an action step to a chart, which is returned.

    With a current reality, the step is telescoped in the same operation, and its new chart is
    returned.

    Raises:
        NotFound: the chart does not exist or is not visible.
        Conflict: the chart is complete, or its charts form a cycle.
    """
    store, principal = performer.store, performer.principal
    results = performer.earlier_results()
    if results is None:
        chart = chart_reading.require(store, principal, chart_id)
        _check_open(chart)
        step = StepTitle(body.title, body.due_date)
        writer = _writer(principal, chart, now)
        if body.current_reality is None:
            acts = chart_plans.plan_step(chart, step, writer)
        else:
            chart_reading.ancestors_of(store, principal, chart)
            acts = chart_plans.plan_telescoped_step(
                chart, step, _new_id(now), body.current_reality, writer
            )
        results = performer.perform(acts, "action step added")
    realities = [] if body.current_reality is None else [body.current_reality]
    advice = charts.advise(body.title, realities)
    if body.current_reality is None:
        return _show(store, principal, chart_id, advice)
    return _show_created(performer, results[chart_plans.ACTS_OF_STEP :], advice)


def remove_step(performer: Performer, chart_id: str, body: StepIn) -> Chart:
    """Remove a step of a chart, and the chart that it was telescoped into.

    Raises:
        NotFound: the chart or the step does not exist or is not visible.
    """
    store, principal = performer.store, performer.principal
    if performer.earlier_results() is None:
        chart = chart_reading.require(store, principal, chart_id)
        step = next((part for part in chart.steps if part.name == body.step), None)
        if step is None:
            raise NotFound(f"chart {chart_id} has no action step {body.step!r}")
        parts = chart_reading.parts_below(store, principal, step, {chart.chart.fact_id})
        performer.perform(chart_plans.plan_removal(parts), "action step removed")
    return _show(store, principal, chart_id, ())


def change_chart(performer: Performer, chart_id: str, body: ChartChanges, now: datetime) -> Chart:
    """Change the outcome, the reality, the due date or the phase of a chart.

    Raises:
        NotFound: the chart does not exist or is not visible.
    """
    store, principal = performer.store, performer.principal
    if performer.earlier_results() is None:
        chart = chart_reading.require(store, principal, chart_id)
        acts = chart_plans.plan_changes(
            chart,
            _writer(principal, chart, now),
            outcome=body.desired_outcome,
            realities=body.current_reality,
            due=body.due_date,
            phase=body.phase,
        )
        performer.perform(acts, "chart updated")
    advice = charts.advise(body.desired_outcome, body.current_reality)
    return _show(store, principal, chart_id, advice)


def record_progress(performer: Performer, body: StepProgressIn, now: datetime) -> Chart:
    """Record progress on a step.

    Raises:
        NotFound: the step does not exist or is not visible.
        Conflict: the step is complete.
    """
    store, principal = performer.store, performer.principal
    chart, step = chart_reading.require_step(store, principal, body.step)
    if performer.earlier_results() is None:
        if step is None or step.is_complete:
            raise Conflict(
                f"{body.step!r} is complete or no action step; progress needs an open one"
            )
        writer = _writer(principal, chart, now)
        acts = chart_plans.plan_progress(
            chart, step, body.observation, writer, in_reality=body.in_reality
        )
        performer.perform(acts, "progress recorded")
    realities = [body.observation] if body.in_reality else []
    return _show(store, principal, chart.id, charts.advise(None, realities))


def complete_step(performer: Performer, body: StepIn, now: datetime) -> Chart:
    """Complete a step, or a whole chart by the name of its desired outcome.

    A completion that conflicts with another is planned again.

    Raises:
        NotFound: the step does not exist or is not visible.
        Conflict: it is complete already, or its charts form a cycle.
    """
    store, principal = performer.store, performer.principal
    attempts = 0
    while performer.earlier_results() is None:
        chart, step = chart_reading.require_step(store, principal, body.step)
        target = step or chart.chart
        if target.is_complete:
            raise Conflict(f"{body.step!r} is complete already")
        ancestors = chart_reading.ancestors_of(store, principal, chart)
        acts = chart_plans.plan_completion(chart, step, ancestors, _writer(principal, chart, now))
        attempts += 1
        try:
            performer.perform(acts, "action step completed")
            break
        except Conflict:
            if attempts == _MAX_ATTEMPTS:
                raise
    chart, _ = chart_reading.require_step(store, principal, body.step)
    return _show(store, principal, chart.id, ())


def telescope_step(performer: Performer, body: TelescopeIn, now: datetime) -> Chart:
    """Make a chart of a step, which becomes its desired outcome; return the new chart.

    Raises:
        NotFound: the step does not exist or is not visible.
        Conflict: the step is complete, has a chart already, or is not an action step.
    """
    results = performer.earlier_results()
    if results is None:
        acts = _plan_telescoping(performer, body, now)
        results = performer.perform(acts, "action step telescoped")
    return _show_created(performer, results, charts.advise(None, [body.current_reality]))


def _plan_telescoping(performer: Performer, body: TelescopeIn, now: datetime) -> list[Act]:
    store, principal = performer.store, performer.principal
    chart, step = chart_reading.require_step(store, principal, body.step)
    if step is None:
        raise Conflict(
            f"{body.step!r} is the desired outcome of chart {chart.id}, which cannot be telescoped"
            " into itself; name one of its action steps"
        )
    if step.is_complete:
        raise Conflict(f"{body.step!r} is complete; telescope an open action step")
    existing = chart_reading.chart_of_step(store, principal, step)
    if existing:
        raise Conflict(
            f"{body.step!r} was telescoped into chart {chart_reading.id_of(existing)} already"
        )
    chart_reading.ancestors_of(store, principal, chart)
    due = charts.parse_time(step.data.get("dueDate")) or now
    texts = (step.title, body.current_reality)
    return chart_plans.plan_creation(
        _new_id(now), texts, due, _titles(body.action_steps), _writer(principal, chart, now),
        Origin(chart, step),
    )  # fmt: skip


def _new_id(now: datetime) -> str:
    return f"chart_{uuid7.provisional_id(now).replace('-', '')}"


def _titles(steps: Sequence[ActionStepIn]) -> list[StepTitle]:
    return [StepTitle(step.title, step.due_date) for step in steps]


def _writer(principal: Principal, chart: StoredChart, now: datetime) -> Writer:
    return Writer(chart.scope, observations.source_of(principal), now)


def _check_open(chart: StoredChart) -> None:
    if chart.chart.is_complete:
        raise Conflict(f"chart {chart.id} is complete; set its phase, or create another chart")


def _is_due(chart: Chart, at: datetime) -> bool:
    dates = [chart.due_date, *(step.due_date for step in chart.action_steps if not step.completed)]
    return any(date is not None and date <= at for date in dates)


def _show(store: Store, principal: Principal, chart_id: str, advice: tuple[str, ...]) -> Chart:
    chart = chart_reading.to_chart(
        store, principal, chart_reading.require(store, principal, chart_id)
    )
    return chart.model_copy(update={"advice": advice})


def _show_created(
    performer: Performer, results: Sequence[ActResult], advice: tuple[str, ...]
) -> Chart:
    """Return the chart that an operation created; its first act stored the chart's entity."""
    store, principal = performer.store, performer.principal
    fact = store.fact(results[0].fact_id, principal.view)
    if fact is None:
        raise NotFound("the chart that this request created was erased")
    return _show(store, principal, chart_reading.id_of(fact), advice)
