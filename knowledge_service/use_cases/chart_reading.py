"""Read structural tension charts from the graph: parts, steps, and the charts above and below.

A chart is found by the name of its first entity and read along its links, so that its other
entities may have been renamed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from knowledge_client.models import ActionStep, Chart, Fact
from knowledge_service.domain import charts
from knowledge_service.domain.charts import Origin, Part, StoredChart
from knowledge_service.domain.principals import Principal
from knowledge_service.errors import Conflict, NotFound
from knowledge_service.ports import Listing
from knowledge_service.use_cases.graph import lookup, observations

if TYPE_CHECKING:
    from knowledge_service.ports import Store

_MAX_PARTS = 500
_MAX_LEVELS = 50
"""The maximum number of charts above one another; more are a cycle, from an import or an edit."""


def require(store: Store, principal: Principal, chart_id: str) -> StoredChart:
    """Return a chart by its id.

    Raises:
        NotFound: it does not exist, is not visible, or lacks one of its entities.
    """
    fact = lookup.find(store, principal, f"{chart_id}_chart")
    chart = read(store, principal, fact) if fact else None
    if chart is None:
        raise NotFound(f"chart {chart_id} does not exist or is not visible to you")
    return chart


def require_step(store: Store, principal: Principal, name: str) -> tuple[StoredChart, Part | None]:
    """Return the chart of a step, and the step; None for a desired outcome."""
    fact = _renamed_step(store, principal, name) or lookup.require(store, principal, name)
    chart_id = fact.data.get("chartId") if isinstance(fact.data, dict) else None
    if fact.subject not in (charts.STEP, charts.OUTCOME) or not isinstance(chart_id, str):
        raise NotFound(f"{name!r} is no action step and no desired outcome of a chart")
    chart = require(store, principal, chart_id)
    step = next((part for part in chart.steps if part.fact_id == fact.id), None)
    if step is None and chart.outcome.fact_id != fact.id:
        raise NotFound(f"{name!r} is no longer a part of chart {chart_id}")
    return chart, step


def _renamed_step(store: Store, principal: Principal, name: str) -> Fact | None:
    """Return the one step that was renamed to a name that no entity has, or None.

    Entities that earlier versions renamed are only found by their old name.
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


def read(store: Store, principal: Principal, fact: Fact) -> StoredChart | None:
    """Read the parts of a chart along its links; None if one is missing."""
    links = store.links_from((fact.id,), principal.view, to_kind=lookup.ENTITY, limit=_MAX_PARTS)
    ends = [store.fact(link.to, principal.view) for link in links if link.type == charts.CONTAINS]
    parts = [_part(store, principal, fact_id) for fact_id in ends if fact_id is not None]
    outcome = next((part for part in parts if part.type == charts.OUTCOME), None)
    reality = next((part for part in parts if part.type == charts.REALITY), None)
    if outcome is None or reality is None:
        return None
    steps = charts.sort_steps(part for part in parts if part.type == charts.STEP)
    chart = _part(store, principal, fact)
    return StoredChart(id_of(fact), fact.scope, chart, outcome, reality, steps)


def _part(store: Store, principal: Principal, fact: Fact) -> Part:
    observed = observations.all_observations_of(store, principal, fact)
    return Part(
        fact_id=fact.id,
        name=fact.content,
        type=fact.subject or "",
        observations=tuple((observation.id, observation.content) for observation in observed),
        data=fact.data if isinstance(fact.data, dict) else {},
        position=max((observation.position or 0 for observation in observed), default=-1) + 1,
        title_id=charts.choose_title(fact, observed),
    )


def id_of(fact: Fact) -> str:
    """Return the id of the chart that an entity names in its data, or in its own name."""
    data: dict[str, Any] = fact.data if isinstance(fact.data, dict) else {}
    return str(data.get("chartId") or fact.content.removesuffix("_chart"))


def chart_of_step(store: Store, principal: Principal, step: Part) -> Fact | None:
    """Return the chart that a step was telescoped into."""
    links = store.links_from(
        (step.fact_id,), principal.view, to_kind=lookup.ENTITY, limit=_MAX_PARTS
    )
    for link in links:
        fact = store.fact(link.to, principal.view)
        if link.type == charts.TELESCOPES_INTO and fact and fact.subject == charts.CHART:
            return fact
    return None


def _is_telescoped(
    store: Store, principal: Principal, origin: tuple[StoredChart, Part], chart: StoredChart
) -> bool:
    """Return whether a chart was telescoped from a step that belongs to another chart."""
    parent, step = origin
    below = chart_of_step(store, principal, step)
    return (
        step.data.get("chartId") == parent.id
        and below is not None
        and below.id == chart.chart.fact_id
    )


def parts_below(
    store: Store, principal: Principal, step: Part, visited_ids: set[str]
) -> list[Part]:
    """Return a step and all parts of the charts below it."""
    parts = [step]
    below = chart_of_step(store, principal, step)
    if below is None or below.id in visited_ids:
        return parts
    visited_ids.add(below.id)
    chart = read(store, principal, below)
    if chart is None:
        return [*parts, _part(store, principal, below)]
    parts += [chart.chart, chart.outcome, chart.reality]
    for each in chart.steps:
        parts += parts_below(store, principal, each, visited_ids)
    return parts


def ancestors_of(store: Store, principal: Principal, chart: StoredChart) -> list[Origin]:
    """Return the charts above a chart, each with the step that was telescoped, nearest first.

    Anyone who may write to a chart may name any parent in its data. The parent counts only if its
    step has a link to the chart, because such a link needs rights to that step.

    Raises:
        Conflict: they form a cycle.
    """
    ancestors: list[Origin] = []
    visited_ids = {chart.id}
    while True:
        parent_id = charts.parse_text(chart.chart.data.get("parentChart"))
        name = chart.chart.data.get("parentActionStep")
        fact = lookup.find(store, principal, f"{parent_id}_chart") if parent_id else None
        parent = read(store, principal, fact) if fact else None
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
        if parent.id in visited_ids or len(ancestors) == _MAX_LEVELS:
            raise Conflict(f"chart {chart.id} is below itself: {' in '.join(sorted(visited_ids))}")
        visited_ids.add(parent.id)
        if step.is_complete:
            return ancestors
        ancestors.append(Origin(parent, step))
        chart = parent


def to_chart(store: Store, principal: Principal, stored: StoredChart) -> Chart:
    """Return a stored chart as the API shows it."""
    steps = tuple(_to_step(store, principal, part) for part in stored.steps)
    open_steps = sorted(
        (step for step in steps if not step.completed),
        key=lambda step: (step.due_date is None, step.due_date.timestamp() if step.due_date else 0),
    )
    data = stored.chart.data
    completed_count = sum(step.completed for step in steps)
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
        progress=1.0
        if stored.chart.is_complete
        else completed_count / len(steps)
        if steps
        else 0.0,
        next_step=open_steps[0].name if open_steps else None,
        level=charts.parse_level(data.get("level")),
        parent_chart=charts.parse_text(data.get("parentChart")),
        parent_step=charts.parse_text(data.get("parentActionStep")),
        advice=(),
    )


def _to_step(store: Store, principal: Principal, part: Part) -> ActionStep:
    below = chart_of_step(store, principal, part)
    return ActionStep(
        name=part.name,
        title=part.title,
        progress=part.progress,
        due_date=charts.parse_time(part.data.get("dueDate")),
        completed=part.is_complete,
        chart=id_of(below) if below else None,
    )
