"""The tool set `charts`: the ten tools of structural tension charts that agents know."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from kais_mcp import framing
from kais_mcp.fact_views import KnowledgeAnswer
from kais_mcp.ports import Knowledge
from kais_mcp.tools import Effect, QuotaName, Tool, ToolAnswer, ToolArguments
from knowledge_client import models
from knowledge_client.base_model import UtcDatetime

_MAX_CHARTS = 50


_Text = Annotated[str, Field(min_length=1, max_length=8192)]
_Name = Annotated[str, Field(min_length=1, max_length=512)]
_Texts = Annotated[tuple[_Text, ...], Field(max_length=50)]
_Due = Annotated[UtcDatetime, Field(description="ISO date or time, such as 2026-05-01.")]


class _Arguments(ToolArguments):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class CreateChartArguments(_Arguments):
    """A chart to create."""

    desired_outcome: _Text = Field(
        alias="desiredOutcome", description="The result to create, rather than a problem to remove."
    )
    current_reality: _Text = Field(
        alias="currentReality", description="The facts of today, rather than readiness to begin."
    )
    due_date: _Due = Field(alias="dueDate")
    action_steps: _Texts = Field(default=(), alias="actionSteps")


class TelescopeArguments(_Arguments):
    """An action step that becomes a chart."""

    action_step_name: _Name = Field(alias="actionStepName")
    new_current_reality: _Text = Field(
        alias="newCurrentReality", description="The facts of today about this step."
    )
    initial_action_steps: _Texts = Field(default=(), alias="initialActionSteps")


class StepArguments(_Arguments):
    """Names an action step, or the desired outcome of a chart."""

    action_step_name: _Name = Field(alias="actionStepName")


class ChartArguments(_Arguments):
    """Names a chart."""

    chart_id: _Name = Field(alias="chartId")


class ListArguments(_Arguments):
    """A page of active charts."""

    due_before: _Due | None = Field(default=None, alias="dueBefore")
    cursor: str | None = Field(default=None, description="The cursor of the page before.")


class ProgressArguments(_Arguments):
    """Progress on an action step."""

    action_step_name: _Name = Field(alias="actionStepName")
    progress_observation: _Text = Field(alias="progressObservation")
    update_current_reality: bool = Field(
        default=False,
        alias="updateCurrentReality",
        description="Add the observation to the current reality as well.",
    )


class RealityArguments(_Arguments):
    """Observations of what is true now."""

    chart_id: _Name = Field(alias="chartId")
    new_observations: _Texts = Field(alias="newObservations", min_length=1)


class AddStepArguments(_Arguments):
    """An action step to add."""

    parent_chart_id: _Name = Field(alias="parentChartId")
    action_step_title: _Text = Field(alias="actionStepTitle")
    due_date: _Due | None = Field(default=None, alias="dueDate")
    current_reality: _Text | None = Field(
        default=None,
        alias="currentReality",
        description="The facts of today about this step, which make it a chart of its own.",
    )


class RemoveStepArguments(_Arguments):
    """An action step to remove."""

    parent_chart_id: _Name = Field(alias="parentChartId")
    action_step_name: _Name = Field(alias="actionStepName")


class OutcomeArguments(_Arguments):
    """Another desired outcome."""

    chart_id: _Name = Field(alias="chartId")
    new_desired_outcome: _Text = Field(alias="newDesiredOutcome")


class ChartAnswer(KnowledgeAnswer):
    """A chart."""

    chart: models.Chart


class ChartsAnswer(KnowledgeAnswer):
    """Active charts, last changed first."""

    charts: tuple[models.Chart, ...]
    cursor: str | None = None


async def _create(knowledge: Knowledge, arguments: CreateChartArguments) -> ChartAnswer:
    chart = models.ChartIn(
        desired_outcome=arguments.desired_outcome,
        current_reality=arguments.current_reality,
        due_date=arguments.due_date,
        action_steps=_steps(arguments.action_steps),
    )
    return ChartAnswer(chart=await knowledge.create_chart(chart))


async def _telescope(knowledge: Knowledge, arguments: TelescopeArguments) -> ChartAnswer:
    step = models.TelescopeIn(
        step=arguments.action_step_name,
        current_reality=arguments.new_current_reality,
        action_steps=_steps(arguments.initial_action_steps),
    )
    return ChartAnswer(chart=await knowledge.telescope_step(step))


async def _complete(knowledge: Knowledge, arguments: StepArguments) -> ChartAnswer:
    step = models.StepIn(step=arguments.action_step_name)
    return ChartAnswer(chart=await knowledge.complete_step(step))


async def _progress(knowledge: Knowledge, arguments: ChartArguments) -> ChartAnswer:
    return ChartAnswer(chart=await knowledge.get_chart(arguments.chart_id))


async def _list(knowledge: Knowledge, arguments: ListArguments) -> ChartsAnswer:
    page = await knowledge.list_charts(
        due_before=arguments.due_before, cursor=arguments.cursor, limit=_MAX_CHARTS
    )
    return ChartsAnswer(charts=page.charts, cursor=page.cursor)


async def _update_progress(knowledge: Knowledge, arguments: ProgressArguments) -> ChartAnswer:
    progress = models.StepProgressIn(
        step=arguments.action_step_name,
        observation=arguments.progress_observation,
        in_reality=arguments.update_current_reality,
    )
    return ChartAnswer(chart=await knowledge.record_progress(progress))


async def _update_reality(knowledge: Knowledge, arguments: RealityArguments) -> ChartAnswer:
    changes = models.ChartChanges(current_reality=arguments.new_observations)
    return ChartAnswer(chart=await knowledge.change_chart(arguments.chart_id, changes))


async def _add_step(knowledge: Knowledge, arguments: AddStepArguments) -> ChartAnswer:
    """Add a step; with a current reality it is telescoped, and the answer is its chart."""
    step = models.AddedStepIn(
        title=arguments.action_step_title,
        due_date=arguments.due_date,
        current_reality=arguments.current_reality,
    )
    return ChartAnswer(chart=await knowledge.add_step(arguments.parent_chart_id, step))


async def _remove_step(knowledge: Knowledge, arguments: RemoveStepArguments) -> ChartAnswer:
    step = models.StepIn(step=arguments.action_step_name)
    return ChartAnswer(chart=await knowledge.remove_step(arguments.parent_chart_id, step))


async def _update_outcome(knowledge: Knowledge, arguments: OutcomeArguments) -> ChartAnswer:
    changes = models.ChartChanges(desired_outcome=arguments.new_desired_outcome)
    return ChartAnswer(chart=await knowledge.change_chart(arguments.chart_id, changes))


def _steps(titles: tuple[str, ...]) -> tuple[models.ActionStepIn, ...]:
    return tuple(models.ActionStepIn(title=title) for title in titles)


def _render(answer: ToolAnswer) -> str:
    text = answer.model_dump_json(exclude={"untrusted", "notice"}, exclude_none=True)
    return framing.frame([framing.element("charts", {}, text)])


def _tool(
    name: str,
    run: Callable[[Any, Any], Awaitable[ToolAnswer]],
    arguments: type[ToolArguments],
    effect: Effect,
    description: str,
) -> Tool:
    cost: dict[QuotaName, int] = {"reads": 1} if effect == "read" else {"writes": 1}
    return Tool(
        name=name,
        title=name.replace("_", " ").capitalize(),
        description=description,
        arguments=arguments,
        answer=ChartsAnswer if arguments is ListArguments else ChartAnswer,
        run=run,
        render=_render,
        effect=effect,
        cost=cost,
    )


TOOLS = (
    _tool(
        "create_structural_tension_chart", _create, CreateChartArguments, "add",
        "Create a chart: a desired outcome, the current reality, a due date, and action steps.",
    ),
    _tool(
        "telescope_action_step", _telescope, TelescopeArguments, "add",
        "Make a chart of an action step, which becomes its desired outcome.",
    ),
    _tool(
        "mark_action_complete", _complete, StepArguments, "change",
        "Complete an action step. It flows into the current reality; the last one completes the"
        " chart, and the step of the parent chart.",
    ),
    _tool(
        "get_chart_progress", _progress, ChartArguments, "read",
        "Read a chart with its steps, its progress and the next step.",
    ),
    _tool(
        "list_active_charts", _list, ListArguments, "read",
        "List the charts that are not complete, or those of them that are due.",
    ),
    _tool(
        "update_action_progress", _update_progress, ProgressArguments, "change",
        "Record progress on an action step without completing it.",
    ),
    _tool(
        "update_current_reality", _update_reality, RealityArguments, "change",
        "Add observations to the current reality of a chart.",
    ),
    _tool(
        "add_action_step", _add_step, AddStepArguments, "add",
        "Add an action step to a chart.",
    ),
    _tool(
        "remove_action_step", _remove_step, RemoveStepArguments, "change",
        "Remove an action step, and the chart that it was telescoped into.",
    ),
    _tool(
        "update_desired_outcome", _update_outcome, OutcomeArguments, "change",
        "Change the desired outcome of a chart.",
    ),
)  # fmt: skip
