"""Plans the acts that create or change a structural tension chart; reads no store and no clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from knowledge_client.models import (
    Act,
    AliasIn,
    FactChanges,
    FactIn,
    LinkAct,
    LinkIn,
    RememberAct,
    RetractAct,
    ReviseAct,
    Source,
)
from knowledge_service.domain.chart_statements import ENTITY, OBSERVATION, SCHEMA
from knowledge_service.domain.charts import (
    CHART,
    CONTAINS,
    OUTCOME,
    REALITY,
    STEP,
    TELESCOPES_INTO,
    Origin,
    Part,
    StoredChart,
    parse_level,
    parse_time,
)

_TENSION, _ADVANCES, _FLOWS = "creates_tension_with", "advances_toward", "flows_into"
_GERMINATION, _ASSIMILATION, _COMPLETION = "germination", "assimilation", "completion"
_FEW_STEPS = 3
ACTS_OF_STEP = 4
"""A step is an entity, its title, and the links to its chart and to the desired outcome."""


@dataclass(frozen=True)
class StepTitle:
    """A step to add; without a due date it gets one."""

    title: str
    due_date: datetime | None = None


@dataclass(frozen=True)
class Writer:
    """The scope, source and time of every fact of a call."""

    scope: Any
    source: Source | None
    now: datetime


def distribute_due_dates(now: datetime, due: datetime, count: int) -> list[datetime]:
    """Return dates for steps at equal distances before the due date of their chart."""
    distance = max(due - now, timedelta()) / (count + 1)
    return [now + distance * number for number in range(1, count + 1)]


def plan_creation(  # noqa: PLR0913 (one argument per part of a chart)
    chart_id: str,
    texts: tuple[str, str],
    due: datetime,
    steps: Sequence[StepTitle],
    writer: Writer,
    origin: Origin | None = None,
    *,
    at: int = 0,
) -> list[Act]:
    """Plan a chart; `texts` are its desired outcome and its current reality.

    The first act has the number `at` in its operation.
    """
    chart, outcome, reality = (f"act:{at + number}" for number in (0, 2, 4))
    stamp = _stamp(writer.now)
    data: dict[str, Any] = {"chartId": chart_id, "dueDate": _stamp(due), "level": 0}
    if origin:
        data |= {
            "parentChart": origin.chart.id,
            "parentActionStep": origin.step.name,
            "level": parse_level(origin.chart.chart.data.get("level")) + 1,
        }
    times = {"createdAt": stamp, "updatedAt": stamp}
    acts: list[Act] = [
        *_entity(
            f"{chart_id}_chart", CHART, f"Chart created on {stamp}",
            {**data, "phase": _GERMINATION, **times}, writer, at,
        ),
        *_entity(
            f"{chart_id}_desired_outcome", OUTCOME, texts[0],
            {"chartId": chart_id, "dueDate": _stamp(due), **times}, writer, at + 2,
        ),
        *_entity(
            f"{chart_id}_current_reality", REALITY, texts[1],
            {"chartId": chart_id, **times}, writer, at + 4,
        ),
        _link(chart, outcome, CONTAINS, stamp),
        _link(chart, reality, CONTAINS, stamp),
        _link(reality, outcome, _TENSION, stamp),
    ]  # fmt: skip
    if origin:
        acts.append(_link(origin.step.fact_id, chart, TELESCOPES_INTO, stamp))
    dates = distribute_due_dates(writer.now, due, len(steps))
    for number, (step, date) in enumerate(zip(steps, dates, strict=True), start=1):
        acts += _step(
            chart_id, number, StepTitle(step.title, step.due_date or date), writer,
            ends=(chart, outcome), at=at + len(acts),
        )  # fmt: skip
    return acts


def plan_step(chart: StoredChart, step: StepTitle, writer: Writer) -> list[Act]:
    """Plan a further step of a chart."""
    return _step(
        chart.id, _next_number(chart), _with_due_date(chart, step, writer.now), writer,
        ends=(chart.chart.fact_id, chart.outcome.fact_id), at=0,
    )  # fmt: skip


def plan_telescoped_step(
    chart: StoredChart, step: StepTitle, chart_id: str, reality: str, writer: Writer
) -> list[Act]:
    """Plan a further step of a chart, and after its acts the chart that it is telescoped into."""
    dated = _with_due_date(chart, step, writer.now)
    number = _next_number(chart)
    part = Part("act:0", _step_name(chart.id, number), STEP, (), {})
    return [
        *plan_step(chart, dated, writer),
        *plan_creation(
            chart_id, (step.title, reality), dated.due_date or writer.now, (), writer,
            Origin(chart, part), at=ACTS_OF_STEP,
        ),
    ]  # fmt: skip


def _next_number(chart: StoredChart) -> int:
    return max((step.number for step in chart.steps), default=0) + 1


def _with_due_date(chart: StoredChart, step: StepTitle, now: datetime) -> StepTitle:
    due = parse_time(chart.chart.data.get("dueDate")) or now
    (date,) = distribute_due_dates(now, due, 1)
    return StepTitle(step.title, step.due_date or date)


def plan_removal(parts: Sequence[Part]) -> list[Act]:
    """Plan the end of entities with their observations; their links end with them."""
    return [
        RetractAct(fact=fact_id)
        for part in parts
        for fact_id in (*(observation_id for observation_id, _ in part.observations), part.fact_id)
    ]


def plan_changes(
    chart: StoredChart,
    writer: Writer,
    *,
    outcome: str | None,
    realities: Sequence[str],
    due: datetime | None,
    phase: str | None,
) -> list[Act]:
    """Plan another outcome, further observations of the reality, another date or phase."""
    acts: list[Act] = []
    if outcome is not None and outcome != chart.outcome.title:
        title_id = chart.outcome.title_id
        if title_id:
            acts.append(ReviseAct(fact=title_id, changes=FactChanges(content=outcome)))
        else:
            acts.append(_observation(chart.outcome.fact_id, outcome, 0, writer))
    existing_texts = {text for _, text in chart.reality.observations}
    new = [text for text in dict.fromkeys(realities) if text not in existing_texts]
    acts += _observe(chart.reality, new, writer)
    changes: dict[str, Any] = {}
    if due is not None:
        changes["dueDate"] = _stamp(due)
    if phase is not None or new:
        changes["phase"] = phase or _after(chart, _ASSIMILATION)
    if changes and any(chart.chart.data.get(name) != value for name, value in changes.items()):
        acts.append(_revise(chart.chart, changes, writer))
    return acts


def plan_progress(
    chart: StoredChart, step: Part, text: str, writer: Writer, *, in_reality: bool
) -> list[Act]:
    """Plan an observation of a step, and with `in_reality` of the current reality."""
    acts = _observe(step, [text], writer)
    acts.append(_revise(step, {"phase": _ASSIMILATION}, writer))
    if in_reality and text not in {
        existing_text for _, existing_text in chart.reality.observations
    }:
        acts += _observe(chart.reality, [text], writer)
    if chart.chart.data.get("phase") == _GERMINATION:
        acts.append(_revise(chart.chart, {"phase": _ASSIMILATION}, writer))
    return acts


def plan_completion(
    chart: StoredChart, step: Part | None, ancestors: Sequence[Origin], writer: Writer
) -> list[Act]:
    """Plan the completion of a step, or of the whole chart if it is None.

    A completed step flows into the current reality of its chart. The last one completes the chart,
    which completes the step that it was telescoped from, and so on upwards through `ancestors`. The
    outcome of a chart without such a step flows into its own current reality.

    With few steps left, each completion also revises the chart. Of several completions at the same
    time, one then succeeds and the others conflict; otherwise none would see that it is the last.
    """
    acts: list[Act] = []
    for level, origin in enumerate((None, *ancestors)):
        if origin is not None:
            chart, step = origin.chart, origin.step
        remaining = [
            each
            for each in chart.steps
            if step is not None and not each.is_complete and each.fact_id != step.fact_id
        ]
        completed = [] if step is None else [step]
        if not remaining and level == len(ancestors):
            completed.append(chart.outcome)
        acts += _flow_into_reality(chart, completed, writer)
        if step is not None:
            acts += _complete_step(chart, step, writer)
        if remaining:
            is_new = chart.chart.data.get("phase") == _GERMINATION
            if is_new or len(remaining) <= _FEW_STEPS:
                changes = {"phase": _ASSIMILATION} if is_new else {}
                acts.append(_revise(chart.chart, changes, writer))
            return acts
        acts.append(_revise(chart.chart, {"phase": _COMPLETION, "completionStatus": True}, writer))
    return acts


def _flow_into_reality(chart: StoredChart, completed: Sequence[Part], writer: Writer) -> list[Act]:
    """Plan what the current reality of a chart observes when parts of it are completed."""
    existing_texts = {text for _, text in chart.reality.observations}
    texts = dict.fromkeys(f"Completed: {part.title}"[:8192] for part in completed)
    return _observe(chart.reality, [text for text in texts if text not in existing_texts], writer)


def _complete_step(chart: StoredChart, step: Part, writer: Writer) -> list[Act]:
    return [
        _link(step.fact_id, chart.reality.fact_id, _FLOWS, _stamp(writer.now)),
        _revise(step, {"completionStatus": True, "phase": _COMPLETION}, writer),
    ]


def _after(chart: StoredChart, phase: str) -> str:
    """Return the phase after an event; what is completed stays so."""
    current = chart.chart.data.get("phase")
    return str(current) if current == _COMPLETION else phase


def _entity(
    name: str, type_: str, title: str, data: Mapping[str, Any], writer: Writer, at: int
) -> list[Act]:
    """Plan an entity, as act number `at`, and its title as the next act."""
    entity = FactIn(
        content=name,
        scope=writer.scope,
        kind=ENTITY,
        subject=type_,
        data=dict(data),
        schema_=SCHEMA,
        aliases=(AliasIn(namespace="entity", value=name),),
        source=writer.source,
        force=True,
    )
    return [RememberAct(fact=entity), _observation(f"act:{at}", title, 0, writer)]


def _step_name(chart_id: str, number: int) -> str:
    """Return the name of the entity of a step."""
    return f"{chart_id}_action_{number}"


def _step(
    chart_id: str, number: int, step: StepTitle, writer: Writer, *, ends: tuple[str, str], at: int
) -> list[Act]:
    stamp = _stamp(writer.now)
    data = {
        "chartId": chart_id,
        "number": number,
        "dueDate": _stamp(step.due_date or writer.now),
        "completionStatus": False,
        "createdAt": stamp,
        "updatedAt": stamp,
    }
    return [
        *_entity(_step_name(chart_id, number), STEP, step.title, data, writer, at),
        _link(ends[0], f"act:{at}", CONTAINS, stamp),
        _link(f"act:{at}", ends[1], _ADVANCES, stamp),
    ]


def _observe(part: Part, texts: Sequence[str], writer: Writer) -> list[Act]:
    return [
        _observation(part.fact_id, text, position, writer)
        for position, text in enumerate(texts, part.position)
    ]


def _observation(entity_id: str, text: str, position: int, writer: Writer) -> Act:
    fact = FactIn(
        content=text,
        scope=writer.scope,
        kind=OBSERVATION,
        about=entity_id,
        position=position,
        source=writer.source,
        force=True,
    )
    return RememberAct(fact=fact)


def _revise(part: Part, changes: Mapping[str, Any], writer: Writer) -> Act:
    data = {**part.data, **changes, "updatedAt": _stamp(writer.now)}
    return ReviseAct(fact=part.fact_id, changes=FactChanges(data=data))


def _link(start: str, end: str, type_: str, stamp: str) -> Act:
    link = LinkIn(from_=start, to=end, type=type_, data={"createdAt": stamp})
    return LinkAct(link=link)


def _stamp(at: datetime) -> str:
    return at.isoformat()
