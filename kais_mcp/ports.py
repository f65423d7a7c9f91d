"""The port that tools call: the knowledge service, on behalf of one caller."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from knowledge_client.models import (
    AddedStepIn,
    Chart,
    ChartChanges,
    ChartIn,
    ChartPage,
    ConfirmIn,
    CorrectIn,
    CorrectionResult,
    Fact,
    FactIn,
    FactPage,
    FactProvenance,
    Graph,
    GraphEntitiesIn,
    GraphNames,
    GraphNamesIn,
    GraphObservations,
    GraphObservationsIn,
    GraphRelations,
    GraphRelationsIn,
    Recalled,
    RecallIn,
    Remembered,
    StepIn,
    StepProgressIn,
    TelescopeIn,
)


class Knowledge(Protocol):
    """Facts as one caller may see and change them; `AsyncKnowledgeClient` implements it."""

    async def recall(self, query: RecallIn, /) -> Recalled: ...

    async def remember(self, fact: FactIn, /) -> Remembered: ...

    async def correct(self, fact_id: str, correction: CorrectIn, /) -> CorrectionResult: ...

    async def confirm(self, fact_id: str, body: ConfirmIn, /) -> Fact: ...

    async def why(self, fact_id: str, /) -> FactProvenance: ...

    async def get_fact(self, fact_id: str, /) -> Fact: ...

    async def list_facts(
        self,
        *,
        kind: str | None = None,
        alias_namespace: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> FactPage:
        """Return a page of visible facts, newest first; each filter narrows."""
        ...

    async def read_graph(
        self,
        *,
        contains: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> Graph:
        """Return a page of entities, or those that contain a text."""
        ...

    async def open_entities(self, body: GraphNamesIn, /) -> Graph: ...

    async def create_entities(self, body: GraphEntitiesIn, /) -> Graph: ...

    async def delete_entities(self, body: GraphNamesIn, /) -> GraphNames: ...

    async def add_observations(self, body: GraphObservationsIn, /) -> GraphObservations: ...

    async def delete_observations(self, body: GraphObservationsIn, /) -> GraphObservations: ...

    async def create_relations(self, body: GraphRelationsIn, /) -> GraphRelations: ...

    async def delete_relations(self, body: GraphRelationsIn, /) -> GraphRelations: ...

    async def create_chart(self, chart: ChartIn, /) -> Chart: ...

    async def get_chart(self, chart_id: str, /) -> Chart: ...

    async def change_chart(self, chart_id: str, changes: ChartChanges, /) -> Chart: ...

    async def add_step(self, chart_id: str, step: AddedStepIn, /) -> Chart: ...

    async def remove_step(self, chart_id: str, step: StepIn, /) -> Chart: ...

    async def record_progress(self, progress: StepProgressIn, /) -> Chart: ...

    async def complete_step(self, step: StepIn, /) -> Chart: ...

    async def telescope_step(self, step: TelescopeIn, /) -> Chart: ...

    async def list_charts(
        self,
        *,
        due_before: datetime | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> ChartPage:
        """Return a page of active charts, last changed first."""
        ...
