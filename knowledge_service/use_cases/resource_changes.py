"""The entities and charts that changed facts belong to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from knowledge_client.models import Fact
from knowledge_service.domain import charts
from knowledge_service.domain.principals import Principal
from knowledge_service.use_cases.graph import lookup
from knowledge_service.use_cases.graph.observations import OBSERVATION

if TYPE_CHECKING:
    from knowledge_service.ports import Store


@dataclass(frozen=True)
class GraphChanges:
    """Names of changed entities, and the ids of changed charts."""

    entities: frozenset[str]
    charts: frozenset[str]


def find_graph_changes(
    store: Store, principal: Principal, fact_ids: Iterable[str], names: Collection[str] = ()
) -> GraphChanges:
    """Return the visible entities and charts that the changed facts belong to.

    A changed entity is reported under its current name, and under each of `names` that is an alias
    of it, such as its previous name.
    """
    changed = {
        entity.id: entity
        for fact_id in dict.fromkeys(fact_ids)
        for entity in _entities_of(store, principal, fact_id)
    }
    chart_ids = (
        charts.parse_text(entity.data.get("chartId"))
        for entity in changed.values()
        if isinstance(entity.data, dict)
    )
    aliases = (
        store.facts_named(lookup.NAMESPACE, tuple(names), principal.view)
        if changed and names
        else ()
    )
    return GraphChanges(
        frozenset(entity.content for entity in changed.values())
        | {name for name, entity in aliases if entity.id in changed},
        frozenset(chart_id for chart_id in chart_ids if chart_id),
    )


def _entities_of(store: Store, principal: Principal, fact_id: str) -> Iterator[Fact]:
    fact = store.fact(fact_id, principal.view)
    if fact is not None and fact.kind == OBSERVATION and fact.about:
        versions = store.current_versions((fact.about,), principal.view)
        fact = versions.get(fact.about) or store.fact(fact.about, principal.view)
    if fact is not None and fact.kind == lookup.ENTITY:
        yield fact
