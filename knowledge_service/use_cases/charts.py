"""Structural tension charts, as entities of the graph; each call is one operation.

A chart is found by the name of its first entity and read along its links, so that its other
entities may have been renamed.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from knowledge_client.models import (
    Act,
    ActionStep,
    ActionStepIn,
    ActResult,
    Chart,
    ChartChanges,
    ChartIn,
    ChartPage,
    Fact,
    StepIn,
    StepProgressIn,
    TelescopeIn,
)
from knowledge_service import uuid7
from knowledge_service.domain import charts
from knowledge_service.domain.charts import Origin, Part, StepTitle, StoredChart, Writer
from knowledge_service.domain.principals import Principal
from knowledge_service.errors import Conflict, NotFound
from knowledge_service.ports import Listing
from knowledge_service.use_cases import authorization, pagination
from knowledge_service.use_cases.graph import lookup, observations
from knowledge_service.use_cases.operations import Performer

if TYPE_CHECKING:
    from knowledge_service.ports import Store

_MAX_PARTS = 500
_MAX_ATTEMPTS = 5
_MAX_LEVELS = 50
"""Charts above one another; more of them are a cycle that an import or a hand has made."""


def create_chart(performer: Performer, body: ChartIn, now: datetime) -> Chart:
    """Create a chart.

    Raises:
        What `Performer.perform` raises.
    """
    results = performer.earlier_results()
    if results is None:
        writer = Writer(body.scope, observations.source_of(performer.principal), now)
        texts = (body.desired_outcome, body.current_reality)
        acts = charts.plan_creation(
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
    listing = Listing(
        view=principal.view,
        limit=limit + 1,
        scopes=authorization.authorize_read([scope], principal) if scope else None,
        kind=lookup.ENTITY,
        lifecycle="live",
        schema=lookup.SCHEMA,
        subject=charts.CHART,
        before_id=pagination.decode(cursor),
    )
    facts, next_cursor = pagination.split_page(
        store.list_facts(listing), limit, lambda fact: fact.id
    )
    stored = [_read(store, principal, fact) for fact in facts]
    shown = [_to_chart(store, principal, each) for each in stored if each is not None]
    chosen = [
        chart
        for chart in shown
        if (completed or not chart.completed) and (due_before is None or _is_due(chart, due_before))
    ]
    return ChartPage(charts=tuple(chosen), cursor=next_cursor)


def add_step(performer: Performer, chart_id: str, body: ActionStepIn, now: datetime) -> Chart:
    """Add an action step to a chart.

    Raises:
        NotFound: the chart does not exist or is not visible.
        Conflict: the chart is complete.
    """
    store, principal = performer.store, performer.principal
    if performer.earlier_results() is None:
        chart = _require(store, principal, chart_id)
        _check_open(chart)
        step = StepTitle(body.title, body.due_date)
        acts = charts.plan_step(chart, step, _writer(principal, chart, now))
        performer.perform(acts, "action step added")
    return _show(store, principal, chart_id, charts.advise(body.title, []))


def remove_step(performer: Performer, chart_id: str, body: StepIn) -> Chart:
    """Remove a step of a chart, and the chart that it was telescoped into.

    Raises:
        NotFound: the chart or the step does not exist or is not visible.
    """
    store, principal = performer.store, performer.principal
    if performer.earlier_results() is None:
        chart = _require(store, principal, chart_id)
        step = next((each for each in chart.steps if each.name == body.step), None)
        if step is None:
            raise NotFound(f"chart {chart_id} has no action step {body.step!r}")
        parts = _parts_below(store, principal, step, {chart.chart.fact_id})
        performer.perform(charts.plan_removal(parts), "action step removed")
    return _show(store, principal, chart_id, ())


def change_chart(performer: Performer, chart_id: str, body: ChartChanges, now: datetime) -> Chart:
    """Change the outcome, the reality, the due date or the phase of a chart.

    Raises:
        NotFound: the chart does not exist or is not visible.
    """
    store, principal = performer.store, performer.principal
    if performer.earlier_results() is None:
        chart = _require(store, principal, chart_id)
        acts = charts.plan_changes(
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
    chart, step = _require_step(store, principal, body.step)
    if performer.earlier_results() is None:
        if step is None or step.is_complete:
            raise Conflict(
                f"{body.step!r} is complete or no action step; progress needs an open one"
            )
        writer = _writer(principal, chart, now)
        acts = charts.plan_progress(
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
        chart, step = _require_step(store, principal, body.step)
        target = step or chart.chart
        if target.is_complete:
            raise Conflict(f"{body.step!r} is complete already")
        ancestors = _ancestors(store, principal, chart)
        acts = charts.plan_completion(chart, step, ancestors, _writer(principal, chart, now))
        attempts += 1
        try:
            performer.perform(acts, "action step completed")
            break
        except Conflict:
            if attempts == _MAX_ATTEMPTS:
                raise
    chart, _ = _require_step(store, principal, body.step)
    return _show(store, principal, chart.id, ())


def telescope_step(performer: Performer, body: TelescopeIn, now: datetime) -> Chart:
    """Make a chart of a step, which becomes its desired outcome; return the new chart.

    Raises:
        NotFound: the step does not exist or is not visible.
        Conflict: the step is complete, has a chart already, or is no action step.
    """
    results = performer.earlier_results()
    if results is None:
        acts = _plan_telescoping(performer, body, now)
        results = performer.perform(acts, "action step telescoped")
    return _show_created(performer, results, charts.advise(None, [body.current_reality]))


def _plan_telescoping(performer: Performer, body: TelescopeIn, now: datetime) -> list[Act]:
    store, principal = performer.store, performer.principal
    chart, step = _require_step(store, principal, body.step)
    if step is None:
        raise Conflict(
            f"{body.step!r} is the desired outcome of chart {chart.id}, which cannot be telescoped"
            " into itself; name one of its action steps"
        )
    if step.is_complete:
        raise Conflict(f"{body.step!r} is complete; telescope an open action step")
    existing = _chart_of_step(store, principal, step)
    if existing:
        raise Conflict(f"{body.step!r} was telescoped into chart {_id_of(existing)} already")
    _ancestors(store, principal, chart)
    due = charts.parse_time(step.data.get("dueDate")) or now
    texts = (step.title, body.current_reality)
    return charts.plan_creation(
        _new_id(now), texts, due, _titles(body.action_steps), _writer(principal, chart, now),
        Origin(chart, step),
    )  # fmt: skip


def _new_id(now: datetime) -> str:
    return f"chart_{uuid7.provisional_id(now).replace('-', '')}"


def _titles(steps: Sequence[ActionStepIn]) -> list[StepTitle]:
    return [StepTitle(each.title, each.due_date) for each in steps]


def _writer(principal: Principal, chart: StoredChart, now: datetime) -> Writer:
    return Writer(chart.scope, observations.source_of(principal), now)


def _require(store: Store, principal: Principal, chart_id: str) -> StoredChart:
    fact = lookup.find(store, principal, f"{chart_id}_chart")
    chart = _read(store, principal, fact) if fact else None
    if chart is None:
        raise NotFound(f"chart {chart_id} does not exist or is not visible to you")
    return chart


def _require_step(store: Store, principal: Principal, name: str) -> tuple[StoredChart, Part | None]:
    """Return the chart of a step, and the step; None for a desired outcome."""
    fact = _renamed_step(store, principal, name) or lookup.require(store, principal, name)
    chart_id = fact.data.get("chartId") if isinstance(fact.data, dict) else None
    if fact.subject not in (charts.STEP, charts.OUTCOME) or not isinstance(chart_id, str):
        raise NotFound(f"{name!r} is no action step and no desired outcome of a chart")
    chart = _require(store, principal, chart_id)
    step = next((each for each in chart.steps if each.fact_id == fact.id), None)
    if step is None and chart.outcome.fact_id != fact.id:
        raise NotFound(f"{name!r} is no longer a part of chart {chart_id}")
    return chart, step


def _renamed_step(store: Store, principal: Principal, name: str) -> Fact | None:
    """Return the one step that was renamed to a name that no entity has, or None.

    A revision of an entity keeps its name in the store, so that relations by that name go on.
    """
    if lookup.find(store, principal, name) is not None:
        return None
    listing = Listing(
        view=principal.view,
        limit=_MAX_PARTS,
        kind=lookup.ENTITY,
        lifecycle="live",
        schema=lookup.SCHEMA,
        subject=charts.STEP,
        contains=name,
    )
    renamed = [fact for fact in store.list_facts(listing) if fact.content == name]
    return renamed[0] if len(renamed) == 1 else None


def _check_open(chart: StoredChart) -> None:
    if chart.chart.is_complete:
        raise Conflict(f"chart {chart.id} is complete; set its phase, or create another chart")


def _read(store: Store, principal: Principal, fact: Fact) -> StoredChart | None:
    """Read the parts of a chart along its links; None if one is missing."""
    links = store.links_from((fact.id,), principal.view, to_kind=lookup.ENTITY, limit=_MAX_PARTS)
    ends = [store.fact(link.to, principal.view) for link in links if link.type == charts.CONTAINS]
    parts = [_part(store, principal, each) for each in ends if each is not None]
    outcome = next((each for each in parts if each.type == charts.OUTCOME), None)
    reality = next((each for each in parts if each.type == charts.REALITY), None)
    if outcome is None or reality is None:
        return None
    steps = charts.sort_steps(each for each in parts if each.type == charts.STEP)
    chart = _part(store, principal, fact)
    return StoredChart(_id_of(fact), fact.scope, chart, outcome, reality, steps)


def _part(store: Store, principal: Principal, fact: Fact) -> Part:
    observed = observations.all_observations_of(store, principal, fact)
    return Part(
        fact_id=fact.id,
        name=fact.content,
        type=fact.subject or "",
        observations=tuple((each.id, each.content) for each in observed),
        data=fact.data if isinstance(fact.data, dict) else {},
        position=max((each.position or 0 for each in observed), default=-1) + 1,
        title_id=charts.choose_title(fact, observed),
    )


def _id_of(fact: Fact) -> str:
    data: dict[str, Any] = fact.data if isinstance(fact.data, dict) else {}
    return str(data.get("chartId") or fact.content.removesuffix("_chart"))


def _chart_of_step(store: Store, principal: Principal, step: Part) -> Fact | None:
    links = store.links_from(
        (step.fact_id,), principal.view, to_kind=lookup.ENTITY, limit=_MAX_PARTS
    )
    for link in links:
        fact = store.fact(link.to, principal.view)
        if link.type == "telescopes_into" and fact and fact.subject == charts.CHART:
            return fact
    return None


def _is_telescoped(
    store: Store, principal: Principal, origin: tuple[StoredChart, Part], chart: StoredChart
) -> bool:
    """Return whether a chart was telescoped from a step that belongs to another chart."""
    parent, step = origin
    below = _chart_of_step(store, principal, step)
    return (
        step.data.get("chartId") == parent.id
        and below is not None
        and below.id == chart.chart.fact_id
    )


def _parts_below(store: Store, principal: Principal, step: Part, seen: set[str]) -> list[Part]:
    """Return a step and all parts of the charts below it."""
    parts = [step]
    below = _chart_of_step(store, principal, step)
    if below is None or below.id in seen:
        return parts
    seen.add(below.id)
    chart = _read(store, principal, below)
    if chart is None:
        return [*parts, _part(store, principal, below)]
    parts += [chart.chart, chart.outcome, chart.reality]
    for each in chart.steps:
        parts += _parts_below(store, principal, each, seen)
    return parts


def _ancestors(store: Store, principal: Principal, chart: StoredChart) -> list[Origin]:
    """Return the charts above a chart, each with the step that was telescoped, nearest first.

    Whoever may write to a chart may name any parent in its data. Only the link from the step of
    the parent, which needs the rights to that step, makes it one.

    Raises:
        Conflict: they form a cycle.
    """
    ancestors: list[Origin] = []
    seen = {chart.id}
    while True:
        parent_id = charts.parse_text(chart.chart.data.get("parentChart"))
        name = chart.chart.data.get("parentActionStep")
        fact = lookup.find(store, principal, f"{parent_id}_chart") if parent_id else None
        parent = _read(store, principal, fact) if fact else None
        if parent is None:
            return ancestors
        # The step may have been renamed since.
        steps = sorted(parent.steps, key=lambda each: each.name != name)
        step = next(
            (each for each in steps if _is_telescoped(store, principal, (parent, each), chart)),
            None,
        )
        if step is None:
            return ancestors
        if parent.id in seen or len(ancestors) == _MAX_LEVELS:
            raise Conflict(f"chart {chart.id} is below itself: {' in '.join(sorted(seen))}")
        seen.add(parent.id)
        if step.is_complete:
            return ancestors
        ancestors.append(Origin(parent, step))
        chart = parent


def _is_due(chart: Chart, at: datetime) -> bool:
    dates = [chart.due_date, *(each.due_date for each in chart.action_steps if not each.completed)]
    return any(date is not None and date <= at for date in dates)


def _show(store: Store, principal: Principal, chart_id: str, advice: tuple[str, ...]) -> Chart:
    chart = _to_chart(store, principal, _require(store, principal, chart_id))
    return chart.model_copy(update={"advice": advice})


def _show_created(
    performer: Performer, results: Sequence[ActResult], advice: tuple[str, ...]
) -> Chart:
    """Return the chart that an operation created; its first act stored the chart's entity."""
    store, principal = performer.store, performer.principal
    fact = store.fact(results[0].fact_id, principal.view)
    if fact is None:
        raise NotFound("the chart that this request created was erased")
    return _show(store, principal, _id_of(fact), advice)


def _to_chart(store: Store, principal: Principal, stored: StoredChart) -> Chart:
    steps = tuple(_to_step(store, principal, each) for each in stored.steps)
    open_steps = sorted(
        (each for each in steps if not each.completed),
        key=lambda each: (each.due_date is None, each.due_date.timestamp() if each.due_date else 0),
    )
    data = stored.chart.data
    done = sum(each.completed for each in steps)
    phase = data.get("phase")
    return Chart(
        id=stored.id,
        name=stored.chart.name,
        scope=stored.scope,
        desired_outcome=stored.outcome.title,
        current_reality=tuple(text for _, text in stored.reality.observations),
        action_steps=steps,
        due_date=charts.parse_time(data.get("dueDate")),
        phase=phase if phase in ("assimilation", "completion") else "germination",
        completed=stored.chart.is_complete,
        progress=1.0 if stored.chart.is_complete else done / len(steps) if steps else 0.0,
        next_step=open_steps[0].name if open_steps else None,
        level=charts.parse_level(data.get("level")),
        parent_chart=charts.parse_text(data.get("parentChart")),
        parent_step=charts.parse_text(data.get("parentActionStep")),
        advice=(),
    )


def _to_step(store: Store, principal: Principal, part: Part) -> ActionStep:
    below = _chart_of_step(store, principal, part)
    return ActionStep(
        name=part.name,
        title=part.title,
        progress=part.progress,
        due_date=charts.parse_time(part.data.get("dueDate")),
        completed=part.is_complete,
        chart=_id_of(below) if below else None,
    )
