"""Formats the graph: entities with their observations, and the relations among them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kais_cli.facts import tables
from kais_cli.views import table_layout

if TYPE_CHECKING:
    from knowledge_client.models import GraphEntity, GraphRelation

_MAX_COLUMNS = 60  # of the first observation, so that a row stays readable


def format_entities(entities: Sequence[GraphEntity]) -> str:
    """Format entities as a table with the first observation of each."""
    rows = [
        (
            entity.name,
            entity.entity_type,
            entity.scope,
            len(entity.observations),
            tables.truncate_content(entity.observations[0], _MAX_COLUMNS)
            if entity.observations
            else None,
        )
        for entity in entities
    ]
    headers = ("NAME", "TYPE", "SCOPE", "OBSERVATIONS", "FIRST OBSERVATION")
    return table_layout.format_table(headers, rows) if rows else ""


def format_relations(relations: Sequence[GraphRelation]) -> str:
    """Format relations as a table."""
    rows = [
        (relation.from_, relation.relation_type, relation.to, relation.strength)
        for relation in relations
    ]
    return table_layout.format_table(("FROM", "RELATION", "TO", "STRENGTH"), rows) if rows else ""


def format_details(entity: GraphEntity) -> str:
    """Format an entity with every observation and its metadata."""
    lines = [
        f"{table_layout.format_cell(entity.name)}  ({table_layout.format_cell(entity.entity_type)})"
    ]
    lines += [f"  scope: {table_layout.format_cell(entity.scope)}"]
    if entity.metadata is not None:
        metadata = json.dumps(entity.metadata, ensure_ascii=False, sort_keys=True)
        lines.append(f"  metadata: {table_layout.format_cell(metadata)}")
    lines += [f"  - {table_layout.format_cell(text)}" for text in entity.observations]
    return "\n".join(lines) + "\n"
