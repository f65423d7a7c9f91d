"""Structural tension charts: what is to exist, what is true now, and the steps between.

A chart is four kinds of entities of the graph: the chart itself, its desired outcome, its current
reality and its action steps. So charts are also read and searched as a graph.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from knowledge_client.base_model import UtcDatetime, WireModel
from knowledge_client.models.facts import ScopeRef

ChartText = Annotated[str, Field(min_length=1, max_length=8192)]
ChartName = Annotated[str, Field(min_length=1, max_length=512)]
Phase = Literal["germination", "assimilation", "completion"]


class ActionStepIn(WireModel):
    """An action step; without a due date it gets one between now and that of its chart."""

    title: ChartText
    due_date: UtcDatetime | None = None


class AddedStepIn(ActionStepIn):
    """An action step to add; with a current reality it is telescoped into a chart of its own."""

    current_reality: ChartText | None = None


class ChartIn(WireModel):
    """A chart to create; `scope` defaults to the caller's."""

    desired_outcome: ChartText
    current_reality: ChartText
    due_date: UtcDatetime
    action_steps: tuple[ActionStepIn, ...] = Field(default=(), max_length=50)
    scope: ScopeRef | None = None


class ChartChanges(WireModel):
    """Changes of a chart: another outcome, further observations of the current reality, a phase."""

    desired_outcome: ChartText | None = None
    current_reality: tuple[ChartText, ...] = Field(default=(), max_length=50)
    due_date: UtcDatetime | None = None
    phase: Phase | None = None


class StepIn(WireModel):
    """The name of an action step."""

    step: ChartName


class StepProgressIn(StepIn):
    """Progress on a step; with `in_reality` it is also an observation of the current reality."""

    observation: ChartText
    in_reality: bool = False


class TelescopeIn(StepIn):
    """A step that becomes the desired outcome of a chart of its own."""

    current_reality: ChartText
    action_steps: tuple[ActionStepIn, ...] = Field(default=(), max_length=50)


class ActionStep(WireModel):
    """A stored action step; `chart` is the id of the chart that it was telescoped into."""

    name: str
    title: str
    progress: tuple[str, ...] = ()
    due_date: datetime | None = None
    completed: bool = False
    chart: str | None = None


class Chart(WireModel):
    """A stored chart.

    `progress` is the share of completed steps. `advice` comments on the texts of the last call; it
    never rejects them.
    """

    id: str
    name: str
    scope: str
    desired_outcome: str
    current_reality: tuple[str, ...]
    action_steps: tuple[ActionStep, ...] = ()
    due_date: datetime | None = None
    phase: Phase
    completed: bool = False
    progress: float = 0
    next_step: str | None = None
    level: int = 0
    parent_chart: str | None = None
    parent_step: str | None = None
    advice: tuple[str, ...] = ()


class ChartPage(WireModel):
    """Charts, last changed first; `cursor` leads to the next page."""

    charts: tuple[Chart, ...]
    cursor: str | None = None
