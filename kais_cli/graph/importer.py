"""Import a memory file into the graph: entities first, then the relations between them.

The file is read twice, with one batch in memory at a time, which is one line if that is long. A
damaged line costs only itself. What exists is not changed, but observations that it lacks are
added, so an import can be repeated.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import pydantic

from kais_cli.error_messages import failures
from kais_cli.facts.detail_view import pluralise
from kais_cli.graph import records
from knowledge_client import errors as knowledge
from knowledge_client import models

if TYPE_CHECKING:
    from knowledge_client import KnowledgeClient

MAX_LINE_BYTES = 16 << 20
"""Bytes of a line: an entity with two thousand of the longest observations."""
_ENTITIES = 50  # the most that the service creates at once
_RELATIONS = 100
# Lines that are longer together are sent one by one: the service reads a MiB.
_BATCH_BYTES = 512 << 10
_MAX_REPORTS = 20  # damaged lines that are named; the rest is counted
_REJECTIONS = (
    knowledge.Conflict, knowledge.InvalidRequest, knowledge.NotFound, knowledge.TooLarge,
)  # fmt: skip
"""Errors that a single record of a batch can cause."""

_Entity = tuple[int, models.GraphEntityIn, tuple[str, ...]]
_Relation = tuple[int, models.GraphRelationIn]


@dataclass
class GraphImport:
    """One import and its progress; `scope` is that of new entities, None for the caller's."""

    client: KnowledgeClient
    name: str
    report: Callable[[str], None]
    scope: str | None = None
    entities: int = 0
    observations: int = 0
    relations: int = 0
    existing: int = 0
    damaged: int = 0
    has_torn_line: bool = False
    has_changed: bool = False

    def run(self, file: BinaryIO) -> None:
        """Import a seekable file."""
        identity_before = _identity(file)
        self._import_entities(file)
        file.seek(0)
        self._import_relations(file)
        if _identity(file) != identity_before:
            self.has_changed = True
            self.report(f"{self.name} changed while it was read; import it again")
        if self.damaged > _MAX_REPORTS:
            self.report(f"{self.damaged - _MAX_REPORTS:,} further damaged lines are not listed")

    @property
    def summary(self) -> str:
        """The numbers of created and skipped records, as text."""
        entities = pluralise(self.entities, "entity", "entities")
        observations = pluralise(self.observations, "observation")
        parts = [f"{entities}, {observations}, {pluralise(self.relations, 'relation')} created"]
        if self.existing:
            parts.append(f"{self.existing:,} existing left as they are")
        if self.damaged:
            parts.append(f"{pluralise(self.damaged, 'line')} left out")
        return "; ".join(parts)

    def _import_entities(self, file: BinaryIO) -> None:
        batch: list[_Entity] = []
        size = 0
        for number, tree, line_bytes in self._read(file):
            if tree["type"] != "entity":
                continue
            if len(batch) == _ENTITIES or size + line_bytes > _BATCH_BYTES:
                self._store_entities(batch)
                batch, size = [], 0
            try:
                batch.append((number, *records.to_entity(tree)))
            except pydantic.ValidationError as exc:
                self._reject(number, f"is not an entity: {failures.format_validation_error(exc)}")
            except records.NotARecord as exc:
                self._reject(number, str(exc))
            size += line_bytes
        self._store_entities(batch)

    def _store_entities(self, batch: list[_Entity]) -> None:
        if not batch:
            return
        try:
            self._create(batch)
        except _REJECTIONS:
            for numbered_entity in batch:
                try:
                    self._create([numbered_entity])
                except _REJECTIONS as exc:
                    self._reject(numbered_entity[0], f"is refused: {_detail(exc)}")

    def _create(self, batch: list[_Entity]) -> None:
        body = models.GraphEntitiesIn(
            entities=tuple(entity for _, entity, _ in batch), scope=self.scope
        )
        created = {entity.name: entity for entity in self.client.create_entities(body).entities}
        self.entities += len(created)
        self.observations += sum(len(entity.observations) for entity in created.values())
        for _, entity, rest in batch:
            added = created.pop(entity.name, None)
            self.existing += added is None
            texts = (() if added else entity.observations) + rest
            self._add(entity.name, texts)

    def _add(self, name: str, texts: tuple[str, ...]) -> None:
        for part in records.portions(texts):
            try:
                item = models.EntityObservationsIn(entity=name, contents=part)
            except pydantic.ValidationError as exc:
                raise knowledge.InvalidRequest(failures.format_validation_error(exc)) from exc
            body = models.GraphObservationsIn(observations=(item,))
            (added,) = self.client.add_observations(body).observations
            self.observations += len(added.contents)

    def _import_relations(self, file: BinaryIO) -> None:
        batch: list[_Relation] = []
        size = 0
        for number, tree, line_bytes in self._read(file, reports=False):
            if tree["type"] != "relation":
                continue
            if len(batch) == _RELATIONS or size + line_bytes > _BATCH_BYTES:
                self._store_relations(batch)
                batch, size = [], 0
            try:
                batch.append((number, records.to_relation(tree)))
            except pydantic.ValidationError as exc:
                self._reject(number, f"is not a relation: {failures.format_validation_error(exc)}")
            except records.NotARecord as exc:
                self._reject(number, str(exc))
            size += line_bytes
        self._store_relations(batch)

    def _store_relations(self, batch: list[_Relation]) -> None:
        if not batch:
            return
        try:
            self._relate(batch)
        except _REJECTIONS:
            for numbered_relation in batch:
                try:
                    self._relate([numbered_relation])
                except _REJECTIONS as exc:
                    self._reject(numbered_relation[0], f"is refused: {_detail(exc)}")

    def _relate(self, batch: list[_Relation]) -> None:
        body = models.GraphRelationsIn(relations=tuple(relation for _, relation in batch))
        created = len(self.client.create_relations(body).relations)
        self.relations += created
        self.existing += len(batch) - created

    def _read(
        self, file: BinaryIO, *, reports: bool = True
    ) -> Iterator[tuple[int, dict[str, Any], int]]:
        """Yield number, record and size of each line, in bytes.

        Without `reports`, damaged lines were reported before.
        """
        for number, data in enumerate(read_lines(file), start=1):
            if len(data) > MAX_LINE_BYTES:
                if reports:
                    self._reject(number, f"is longer than {MAX_LINE_BYTES:,} bytes")
                continue
            try:
                tree = records.parse_line(data)
            except records.NotARecord as exc:
                if reports and data.endswith(b"\n"):
                    self._reject(number, str(exc))
                elif reports:
                    self.has_torn_line = True
                    self.report(f"{self.name}, line {number:,}: torn, left out")
                continue
            if tree is not None:
                yield number, tree, len(data)

    def _reject(self, number: int, problem: str) -> None:
        self.damaged += 1
        if self.damaged <= _MAX_REPORTS:
            self.report(f"{self.name}, line {number:,} {problem}; left out")


def read_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file; keeps little more than the allowed length of a long line."""
    while data := file.readline(MAX_LINE_BYTES + 1):
        yield data
        while len(data) > MAX_LINE_BYTES and not data.endswith(b"\n"):
            data = file.readline(MAX_LINE_BYTES + 1)


def _identity(file: BinaryIO) -> tuple[int, int]:
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


def _detail(exc: knowledge.KnowledgeError) -> str:
    if exc.problem is None:
        return str(exc)
    violations = (f"{each.path}: {each.message}" for each in exc.problem.violations)
    return "; ".join((exc.problem.detail, *violations))
