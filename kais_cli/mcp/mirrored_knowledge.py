"""The knowledge of one person, with a memory file that follows the graph.

The file is imported before the first call about the graph. From then on the service is the source
of truth: the file follows what this client saves, and is rewritten if another program has changed
it. The file has the entities of one scope. Imported and new entities get this scope.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

import anyio

from kais_cli.errors import CliError, UsageError
from kais_cli.graph import export, records, whole_graph
from kais_cli.graph.importer import GraphImport
from kais_cli.graph.mirror import LastSave, Mirror, identify
from kais_cli.mcp.person_knowledge import PersonKnowledge
from knowledge_client.client import KnowledgeClient
from knowledge_client.errors import KnowledgeError, KnowledgeUnavailable, UnexpectedAnswer
from knowledge_client.models import (
    ActionStepIn,
    Chart,
    ChartChanges,
    ChartIn,
    ChartPage,
    Graph,
    GraphEntitiesIn,
    GraphNames,
    GraphNamesIn,
    GraphObservations,
    GraphObservationsIn,
    GraphRelations,
    GraphRelationsIn,
    StepIn,
    StepProgressIn,
    TelescopeIn,
)


@dataclass(kw_only=True)
class MirroredKnowledge(PersonKnowledge):
    """Saves each change of the graph in the service, and then in the memory file."""

    mirror: Mirror
    scope: str
    _is_imported: bool = False
    _is_behind: bool = False
    _order: asyncio.Lock | None = None

    async def read_graph(
        self,
        *,
        contains: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> Graph:
        """Return a page of entities, or those that contain a text."""
        await self._import_once()
        return await super().read_graph(contains=contains, cursor=cursor, limit=limit)

    async def open_entities(self, body: GraphNamesIn, /) -> Graph:
        """Return entities by their names."""
        await self._import_once()
        return await super().open_entities(body)

    async def read_whole_graph(self) -> Graph:
        """Return all entities and relations."""
        await self._import_once()
        return await self._call(whole_graph.read)

    async def search_with_relations(self, text: str) -> Graph:
        """Return the entities that contain a text, and the relations that lead from or to them."""
        await self._import_once()
        return await self._call(lambda client: whole_graph.search(client, text))

    async def open_with_relations(self, names: Sequence[str]) -> Graph:
        """Return entities by their names, and the relations that lead from or to them."""
        await self._import_once()
        return await self._call(lambda client: whole_graph.open_entities(client, names))

    async def create_entities(self, body: GraphEntitiesIn, /) -> Graph:
        """Create the entities that do not exist, and append them to the file."""
        scoped_body = body.model_copy(update={"scope": body.scope or self.scope})
        async with self._change():
            last_save = await self._last_save()
            graph = await super().create_entities(scoped_body)
            lines = [
                records.format_entity(entity, entity.observations)
                for entity in graph.entities
                if entity.scope == self.scope
            ]
            if lines:
                await self._save_file(lambda client: self._append(client, lines, last_save))
        return graph

    async def create_relations(self, body: GraphRelationsIn, /) -> GraphRelations:
        """Create the relations that do not exist, and append them to the file."""
        async with self._change():
            last_save = await self._last_save()
            created = await super().create_relations(body)
            if created.relations:
                await self._save_file(
                    lambda client: self._add_relations(client, created, last_save)
                )
        return created

    async def add_observations(self, body: GraphObservationsIn, /) -> GraphObservations:
        """Add observations, and rewrite the file."""
        async with self._change():
            added = await super().add_observations(body)
            await self._save(
                [text for addition in added.observations for text in addition.contents]
            )
        return added

    async def delete_observations(self, body: GraphObservationsIn, /) -> GraphObservations:
        """Retract observations, and rewrite the file."""
        async with self._change():
            deleted = await super().delete_observations(body)
            await self._save(
                [text for deletion in deleted.observations for text in deletion.contents]
            )
        return deleted

    async def delete_entities(self, body: GraphNamesIn, /) -> GraphNames:
        """Retract entities, and rewrite the file."""
        async with self._change():
            deleted = await super().delete_entities(body)
            await self._save(deleted.names)
        return deleted

    async def delete_relations(self, body: GraphRelationsIn, /) -> GraphRelations:
        """Close relations, and rewrite the file."""
        async with self._change():
            deleted = await super().delete_relations(body)
            await self._save([relation.relation_type for relation in deleted.relations])
        return deleted

    async def create_chart(self, chart: ChartIn, /) -> Chart:
        """Create a chart, and rewrite the file."""
        scoped_chart = chart.model_copy(update={"scope": chart.scope or self.scope})
        async with self._change():
            changed = await super().create_chart(scoped_chart)
            await self._save([changed.id])
        return changed

    async def get_chart(self, chart_id: str, /) -> Chart:
        """Return a chart with its progress."""
        await self._import_once()
        return await super().get_chart(chart_id)

    async def change_chart(self, chart_id: str, changes: ChartChanges, /) -> Chart:
        """Change a chart, and rewrite the file."""
        async with self._change():
            changed = await super().change_chart(chart_id, changes)
            await self._save([changed.id])
        return changed

    async def add_step(self, chart_id: str, step: ActionStepIn, /) -> Chart:
        """Add an action step, and rewrite the file."""
        async with self._change():
            changed = await super().add_step(chart_id, step)
            await self._save([changed.id])
        return changed

    async def remove_step(self, chart_id: str, step: StepIn, /) -> Chart:
        """Remove an action step, and rewrite the file."""
        async with self._change():
            changed = await super().remove_step(chart_id, step)
            await self._save([changed.id])
        return changed

    async def record_progress(self, progress: StepProgressIn, /) -> Chart:
        """Record progress on a step, and rewrite the file."""
        async with self._change():
            changed = await super().record_progress(progress)
            await self._save([changed.id])
        return changed

    async def complete_step(self, step: StepIn, /) -> Chart:
        """Complete an action step, and rewrite the file."""
        async with self._change():
            changed = await super().complete_step(step)
            await self._save([changed.id])
        return changed

    async def telescope_step(self, step: TelescopeIn, /) -> Chart:
        """Make a chart of an action step, and rewrite the file."""
        async with self._change():
            changed = await super().telescope_step(step)
            await self._save([changed.id])
        return changed

    async def list_charts(
        self,
        *,
        due_before: datetime | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> ChartPage:
        """Return a page of active charts, last changed first."""
        await self._import_once()
        return await super().list_charts(due_before=due_before, cursor=cursor, limit=limit)

    async def _import_once(self) -> None:
        if not self._is_imported:
            async with self._change():
                pass

    @asynccontextmanager
    async def _change(self) -> AsyncIterator[None]:
        """Let one change at a time reach the service and the file, which is imported before.

        Otherwise a change could be appended after the save of a later one, which has undone it. A
        client that cancels its call does not end what has begun, because the service may have
        stored the change already.
        """
        self._order = self._order or asyncio.Lock()
        async with self._order:
            with anyio.CancelScope(shield=True):
                if not self._is_imported:
                    await self._call(self._import)
                try:
                    yield
                except (KnowledgeUnavailable, UnexpectedAnswer):
                    self._is_behind = True  # the service may have stored the change
                    raise

    async def _last_save(self) -> LastSave | None:
        """Return the last save of the file; None, after which it is rewritten, if unreadable."""
        try:
            return await asyncio.to_thread(self.mirror.last_save)
        except (OSError, CliError):
            return None  # saving the file fails too, and is reported

    async def _save(self, changes: Sequence[str]) -> None:
        """Rewrite the file if there are changes."""
        if changes:
            await self._save_file(self._rewrite)

    async def _save_file(self, save: Callable[[KnowledgeClient], None]) -> None:
        """Save the file; only report a failure, because the service has stored the change."""
        try:
            await self._call(save)
        except (OSError, CliError, KnowledgeError) as exc:
            self._is_behind = True
            self.mirror.report(f"{self.mirror.path} does not have the last change: {exc}")

    def _import(self, client: KnowledgeClient) -> None:
        mirror = self.mirror
        try:
            with mirror.open() as file:
                identity = identify(file)
                if not mirror.is_current(identity):
                    graph_import = GraphImport(client, str(mirror.path), mirror.report, self.scope)
                    graph_import.run(file)
                    mirror.report(f"{mirror.path}: {graph_import.summary}")
                    is_damaged = bool(graph_import.damaged or graph_import.has_torn_line)
                    mirror.adopt(identity, is_damaged=is_damaged)
        except FileNotFoundError:
            pass  # the first save creates it
        except OSError as exc:
            raise UsageError(f"cannot read {mirror.path}: {exc.strerror}") from exc
        self._is_imported = True

    def _add_relations(
        self, client: KnowledgeClient, created: GraphRelations, last_save: LastSave | None
    ) -> None:
        """Append the relations that lead from entities of the scope."""
        names = tuple(dict.fromkeys(item.from_ for item in created.relations))
        entities = client.open_entities(GraphNamesIn(names=names)).entities
        own_names = {item.name for item in entities if item.scope == self.scope}
        lines = [
            records.format_relation(item) for item in created.relations if item.from_ in own_names
        ]
        if lines:
            self._append(client, lines, last_save)

    def _append(
        self, client: KnowledgeClient, lines: list[str], last_save: LastSave | None
    ) -> None:
        """Append lines, unless the file lacks a change or was saved since `last_save`."""
        if self._is_behind or last_save is None or not self.mirror.append(lines, after=last_save):
            self._rewrite(client)

    def _rewrite(self, client: KnowledgeClient) -> None:
        self.mirror.rewrite(export.lines(client, scope=self.scope))
        self._is_behind = False
