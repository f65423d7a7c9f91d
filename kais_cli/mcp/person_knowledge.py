"""The knowledge service for the tools of one person, over a connection that is reopened.

A client stays for days; the token of a realm lasts an hour, and a port-forward ends with its pod.
So a call that fails because its token expired or its connection broke is repeated once, over a new
connection.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from kais_cli.knowledge import scope_context
from kais_cli.session import Session
from knowledge_client import errors
from knowledge_client.client import KnowledgeClient
from knowledge_client.models import (
    ActionStepIn,
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

T = TypeVar("T")


@dataclass
class PersonKnowledge:
    """The `Knowledge` port of the tools; raises `KnowledgeError` and `CliError`."""

    session: Session
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _opened: ExitStack | None = None
    _client: KnowledgeClient | None = None

    async def recall(self, query: RecallIn, /) -> Recalled:
        """Return ranked facts and leave a receipt."""
        return await self._call(lambda client: client.recall(query))

    async def remember(self, fact: FactIn, /) -> Remembered:
        """Store a fact in the realm of the namespace, unless it names a scope."""
        scope = fact.scope or scope_context.default_scope(self.session)
        scoped_fact = fact.model_copy(update={"scope": scope}) if scope else fact
        key = uuid.uuid4().hex
        return await self._call(lambda client: client.remember(scoped_fact, idempotency_key=key))

    async def correct(self, fact_id: str, correction: CorrectIn, /) -> CorrectionResult:
        """Close a fact; a replacement becomes its successor."""
        key = uuid.uuid4().hex
        return await self._call(
            lambda client: client.correct(fact_id, correction, idempotency_key=key)
        )

    async def confirm(self, fact_id: str, body: ConfirmIn, /) -> Fact:
        """Confirm a fact."""
        key = uuid.uuid4().hex
        return await self._call(lambda client: client.confirm(fact_id, body, idempotency_key=key))

    async def why(self, fact_id: str, /) -> FactProvenance:
        """Return the provenance of a fact."""
        return await self._call(lambda client: client.why(fact_id))

    async def get_fact(self, fact_id: str, /) -> Fact:
        """Return a fact by its id or an alias."""
        return await self._call(lambda client: client.get_fact(fact_id))

    async def list_facts(
        self,
        *,
        kind: str | None = None,
        alias_namespace: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> FactPage:
        """Return a page of live facts, newest first."""
        return await self._call(
            lambda client: client.list_facts(
                lifecycle="live",
                kind=kind,
                alias_namespace=alias_namespace,
                cursor=cursor,
                limit=limit,
            )
        )

    async def read_graph(
        self,
        *,
        contains: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> Graph:
        """Return a page of entities, or those that contain a text."""
        return await self._call(
            lambda client: client.read_graph(contains=contains, cursor=cursor, limit=limit)
        )

    async def open_entities(self, body: GraphNamesIn, /) -> Graph:
        """Return entities by their names."""
        return await self._call(lambda client: client.open_entities(body))

    async def create_entities(self, body: GraphEntitiesIn, /) -> Graph:
        """Create the entities that do not exist."""
        scope = body.scope or scope_context.default_scope(self.session)
        scoped_body = body.model_copy(update={"scope": scope}) if scope else body
        key = uuid.uuid4().hex
        return await self._call(
            lambda client: client.create_entities(scoped_body, idempotency_key=key)
        )

    async def delete_entities(self, body: GraphNamesIn, /) -> GraphNames:
        """Retract entities."""
        key = uuid.uuid4().hex
        return await self._call(lambda client: client.delete_entities(body, idempotency_key=key))

    async def add_observations(self, body: GraphObservationsIn, /) -> GraphObservations:
        """Add observations."""
        key = uuid.uuid4().hex
        return await self._call(lambda client: client.add_observations(body, idempotency_key=key))

    async def delete_observations(self, body: GraphObservationsIn, /) -> GraphObservations:
        """Retract observations."""
        key = uuid.uuid4().hex
        return await self._call(
            lambda client: client.delete_observations(body, idempotency_key=key)
        )

    async def create_relations(self, body: GraphRelationsIn, /) -> GraphRelations:
        """Create the relations that do not exist."""
        key = uuid.uuid4().hex
        return await self._call(lambda client: client.create_relations(body, idempotency_key=key))

    async def delete_relations(self, body: GraphRelationsIn, /) -> GraphRelations:
        """Close relations."""
        key = uuid.uuid4().hex
        return await self._call(lambda client: client.delete_relations(body, idempotency_key=key))

    async def create_chart(self, chart: ChartIn, /) -> Chart:
        """Create a chart in the realm of the namespace, unless it names a scope."""
        scope = chart.scope or scope_context.default_scope(self.session)
        scoped_chart = chart.model_copy(update={"scope": scope}) if scope else chart
        key = uuid.uuid4().hex
        return await self._call(
            lambda client: client.create_chart(scoped_chart, idempotency_key=key)
        )

    async def get_chart(self, chart_id: str, /) -> Chart:
        """Return a chart with its progress."""
        return await self._call(lambda client: client.get_chart(chart_id))

    async def change_chart(self, chart_id: str, changes: ChartChanges, /) -> Chart:
        """Change a chart."""
        key = uuid.uuid4().hex
        return await self._call(
            lambda client: client.change_chart(chart_id, changes, idempotency_key=key)
        )

    async def add_step(self, chart_id: str, step: ActionStepIn, /) -> Chart:
        """Add an action step."""
        key = uuid.uuid4().hex
        return await self._call(lambda client: client.add_step(chart_id, step, idempotency_key=key))

    async def remove_step(self, chart_id: str, step: StepIn, /) -> Chart:
        """Remove an action step."""
        key = uuid.uuid4().hex
        return await self._call(
            lambda client: client.remove_step(chart_id, step, idempotency_key=key)
        )

    async def record_progress(self, progress: StepProgressIn, /) -> Chart:
        """Record progress on a step."""
        key = uuid.uuid4().hex
        return await self._call(
            lambda client: client.record_progress(progress, idempotency_key=key)
        )

    async def complete_step(self, step: StepIn, /) -> Chart:
        """Complete an action step."""
        key = uuid.uuid4().hex
        return await self._call(lambda client: client.complete_step(step, idempotency_key=key))

    async def telescope_step(self, step: TelescopeIn, /) -> Chart:
        """Make a chart of an action step."""
        key = uuid.uuid4().hex
        return await self._call(lambda client: client.telescope_step(step, idempotency_key=key))

    async def list_charts(
        self,
        *,
        due_before: datetime | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> ChartPage:
        """Return a page of active charts, last changed first."""
        return await self._call(
            lambda client: client.list_charts(due_before=due_before, cursor=cursor, limit=limit)
        )

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._close()

    async def _call(self, call: Callable[[KnowledgeClient], T]) -> T:
        return await asyncio.to_thread(self._call_in_thread, call)

    def _call_in_thread(self, call: Callable[[KnowledgeClient], T]) -> T:
        earlier_client = self._client
        try:
            return call(self._open())
        except (errors.Unauthenticated, errors.KnowledgeUnavailable) as exc:
            is_connected = exc.problem is not None and not isinstance(exc, errors.Unauthenticated)
            if earlier_client is None or is_connected:
                raise
            return call(self._open(instead_of=earlier_client))

    def _open(self, *, instead_of: KnowledgeClient | None = None) -> KnowledgeClient:
        """Return the open client; opens another one if there is none or it is `instead_of`."""
        with self._lock:
            if self._client is None or self._client is instead_of:
                self._close()
                opened = ExitStack()
                client = opened.enter_context(scope_context.client(self.session, as_agent=True))
                self._opened, self._client = opened, client
            return self._client

    def _close(self) -> None:
        if self._opened:
            self._opened.close()
        self._opened = self._client = None
