"""Calls use cases for the tools of one caller, without going through the routes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

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
from knowledge_service.open_reads import OpenRead
from knowledge_service.use_cases import (
    charts,
    concurrency_limits,
    fact_lifecycle,
    fact_queries,
    provenance,
)
from knowledge_service.use_cases import recall as recall_use_case
from knowledge_service.use_cases import remember as remember_use_case
from knowledge_service.use_cases.fact_queries import FactFilters
from knowledge_service.use_cases.graph import entities, observations, reading, relations
from knowledge_service.use_cases.offload import Offload
from knowledge_service.use_cases.operations import Performer

T = TypeVar("T")


@dataclass(frozen=True)
class CallerKnowledge:
    """The `Knowledge` port of the tools for one caller; raises `ServiceError`."""

    offload: Offload
    open_read: OpenRead
    """Begins with the first call of the request; an erasure waits for its end."""

    async def recall(self, query: RecallIn, /) -> Recalled:
        """Return ranked facts and leave a receipt."""
        services = self.offload.services
        call = functools.partial(
            recall_use_case.recall,
            services.store,
            self.offload.principal,
            query,
            now=services.now(),
            idempotency_key=None,
        )
        return await self._run(call, "recalls")

    async def remember(self, fact: FactIn, /) -> Remembered:
        """Store a fact, or confirm an equal one."""
        return await remember_use_case.remember_one(self.offload, fact, None)

    async def correct(self, fact_id: str, correction: CorrectIn, /) -> CorrectionResult:
        """Close a fact; a replacement becomes its successor."""
        call = functools.partial(
            fact_lifecycle.correct,
            self.offload.services.store,
            self.offload.principal,
            fact_id,
            correction,
            None,
        )
        return await self._run(call, "writes")

    async def confirm(self, fact_id: str, body: ConfirmIn, /) -> Fact:
        """Confirm a fact."""
        call = functools.partial(
            fact_lifecycle.confirm,
            self.offload.services.store,
            self.offload.principal,
            fact_id,
            body,
            None,
        )
        return await self._run(call, "writes")

    async def why(self, fact_id: str, /) -> FactProvenance:
        """Return the provenance of a fact."""
        call = functools.partial(
            provenance.get_provenance,
            self.offload.services.store,
            self.offload.principal,
            fact_id,
        )
        return await self._run(call, "lists")

    async def get_fact(self, fact_id: str, /) -> Fact:
        """Return a fact by its id or an alias."""
        call = functools.partial(
            fact_queries.get_readable_fact,
            self.offload.services.store,
            self.offload.principal,
            fact_id,
        )
        return await self._run(call, "lookups")

    async def list_facts(
        self,
        *,
        kind: str | None = None,
        alias_namespace: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> FactPage:
        """Return a page of live facts, newest first."""
        filters = FactFilters(
            kind=kind,
            alias_namespace=alias_namespace,
            cursor=cursor,
            limit=limit or 50,
            lifecycle="live",
        )
        call = functools.partial(
            fact_queries.list_facts, self.offload.services.store, self.offload.principal, filters
        )
        return await self._run(call, "lists")

    async def read_graph(
        self,
        *,
        contains: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> Graph:
        """Return a page of entities, or those that contain a text."""
        call = functools.partial(
            reading.read_graph,
            self.offload.services.store,
            self.offload.principal,
            scope=None,
            contains=contains,
            cursor=cursor,
            limit=limit or 100,
        )
        return await self._run(call, "lists")

    async def open_entities(self, body: GraphNamesIn, /) -> Graph:
        """Return entities by their names."""
        call = functools.partial(
            reading.open_entities, self.offload.services.store, self.offload.principal, body
        )
        return await self._run(call, "lists")

    async def create_entities(self, body: GraphEntitiesIn, /) -> Graph:
        """Create the entities that do not exist."""
        call = functools.partial(entities.create_entities, self._performer, body)
        return await self._run(call, "writes")

    async def delete_entities(self, body: GraphNamesIn, /) -> GraphNames:
        """Retract entities."""
        call = functools.partial(entities.delete_entities, self._performer, body)
        return await self._run(call, "writes")

    async def add_observations(self, body: GraphObservationsIn, /) -> GraphObservations:
        """Add observations."""
        call = functools.partial(observations.add_observations, self._performer, body)
        return await self._run(call, "writes")

    async def delete_observations(self, body: GraphObservationsIn, /) -> GraphObservations:
        """Retract observations."""
        call = functools.partial(observations.delete_observations, self._performer, body)
        return await self._run(call, "writes")

    async def create_relations(self, body: GraphRelationsIn, /) -> GraphRelations:
        """Create the relations that do not exist."""
        call = functools.partial(relations.create_relations, self._performer, body)
        return await self._run(call, "writes")

    async def delete_relations(self, body: GraphRelationsIn, /) -> GraphRelations:
        """Close relations."""
        call = functools.partial(relations.delete_relations, self._performer, body)
        return await self._run(call, "writes")

    async def create_chart(self, chart: ChartIn, /) -> Chart:
        """Create a chart."""
        call = functools.partial(
            charts.create_chart, self._performer, chart, self.offload.services.now()
        )
        return await self._run(call, "writes")

    async def get_chart(self, chart_id: str, /) -> Chart:
        """Return a chart with its progress."""
        services = self.offload.services
        call = functools.partial(charts.get_chart, services.store, self.offload.principal, chart_id)
        return await self._run(call, "lists")

    async def change_chart(self, chart_id: str, changes: ChartChanges, /) -> Chart:
        """Change a chart."""
        call = functools.partial(
            charts.change_chart, self._performer, chart_id, changes, self.offload.services.now()
        )
        return await self._run(call, "writes")

    async def add_step(self, chart_id: str, step: AddedStepIn, /) -> Chart:
        """Add an action step."""
        call = functools.partial(
            charts.add_step, self._performer, chart_id, step, self.offload.services.now()
        )
        return await self._run(call, "writes")

    async def remove_step(self, chart_id: str, step: StepIn, /) -> Chart:
        """Remove an action step."""
        call = functools.partial(charts.remove_step, self._performer, chart_id, step)
        return await self._run(call, "writes")

    async def record_progress(self, progress: StepProgressIn, /) -> Chart:
        """Record progress on a step."""
        call = functools.partial(
            charts.record_progress, self._performer, progress, self.offload.services.now()
        )
        return await self._run(call, "writes")

    async def complete_step(self, step: StepIn, /) -> Chart:
        """Complete an action step."""
        call = functools.partial(
            charts.complete_step, self._performer, step, self.offload.services.now()
        )
        return await self._run(call, "writes")

    async def telescope_step(self, step: TelescopeIn, /) -> Chart:
        """Make a chart of an action step."""
        call = functools.partial(
            charts.telescope_step, self._performer, step, self.offload.services.now()
        )
        return await self._run(call, "writes")

    async def list_charts(
        self,
        *,
        due_before: datetime | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> ChartPage:
        """Return a page of active charts, last changed first."""
        call = functools.partial(
            charts.list_charts,
            self.offload.services.store,
            self.offload.principal,
            scope=None,
            completed=False,
            due_before=due_before,
            cursor=cursor,
            limit=limit or 20,
        )
        return await self._run(call, "lists")

    async def _run(self, call: Callable[[], T], kind: concurrency_limits.SlotKind) -> T:
        return await self.offload.run(call, kind, self.open_read.begin)

    @property
    def _performer(self) -> Performer:
        return Performer(self.offload.services, self.offload.principal)
