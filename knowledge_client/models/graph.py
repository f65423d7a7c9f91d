"""The graph: entities with observations, and relations between them.

An entity is a fact of kind `entity` with the alias `entity:NAME`, an observation is a fact about
it, and a relation is a link.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from knowledge_client.base_model import WireModel
from knowledge_client.models.facts import ScopeRef

EntityName = Annotated[str, Field(min_length=1, max_length=512)]
EntityNames = Annotated[tuple[EntityName, ...], Field(min_length=1, max_length=100)]
Observations = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=8192)], ...], Field(max_length=100)
]


class GraphEntityIn(WireModel):
    """An entity to create, with its observations in order."""

    name: EntityName
    entity_type: str = Field(min_length=1, max_length=512)
    observations: Observations = ()
    metadata: Any = None


class GraphEntitiesIn(WireModel):
    """Entities to create; `scope` defaults to the caller's."""

    entities: tuple[GraphEntityIn, ...] = Field(min_length=1, max_length=50)
    scope: ScopeRef | None = None


class GraphEntity(WireModel):
    """A stored entity and its observations in order, at most 500."""

    id: str
    scope: str
    name: str
    entity_type: str
    observations: tuple[str, ...] = ()
    metadata: Any = None


class GraphRelationIn(WireModel):
    """A relation between two entities, by their names."""

    from_: EntityName = Field(alias="from")
    to: EntityName
    relation_type: str = Field(min_length=1, max_length=512)
    strength: float | None = Field(default=None, ge=0, le=1_000_000)
    metadata: dict[str, Any] | None = None


class GraphRelationsIn(WireModel):
    """Relations to create or delete."""

    relations: tuple[GraphRelationIn, ...] = Field(min_length=1, max_length=100)


class GraphRelation(WireModel):
    """A stored relation."""

    from_: str = Field(alias="from")
    to: str
    relation_type: str
    strength: float | None = None
    metadata: dict[str, Any] | None = None


class Graph(WireModel):
    """Entities, and the relations among them.

    `truncated` means that there is more than the answer holds; `cursor` leads to the next page.
    """

    entities: tuple[GraphEntity, ...]
    relations: tuple[GraphRelation, ...]
    truncated: bool = False
    cursor: str | None = None


class GraphNamesIn(WireModel):
    """Names of entities."""

    names: EntityNames


class EntityObservationsIn(WireModel):
    """Observations of one entity."""

    entity: EntityName
    contents: Observations = Field(min_length=1)


class GraphObservationsIn(WireModel):
    """Observations to add or delete."""

    observations: tuple[EntityObservationsIn, ...] = Field(min_length=1, max_length=50)


class EntityObservations(WireModel):
    """The observations of one entity that a call added or deleted."""

    entity: str
    contents: tuple[str, ...]


class GraphObservations(WireModel):
    """The observations that a call added or deleted, without those that it did not change."""

    observations: tuple[EntityObservations, ...]


class GraphRelations(WireModel):
    """The relations that a call created or deleted."""

    relations: tuple[GraphRelation, ...]


class GraphNames(WireModel):
    """The names of the entities that a call deleted."""

    names: tuple[str, ...]
