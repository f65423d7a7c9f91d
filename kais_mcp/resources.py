"""Resources: facts, entities and charts by their URIs, listed in pages.

A list has the facts first, then the entities, then the active charts; a cursor names the kind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote, unquote

import pydantic

from kais_mcp.failures import ToolFailure, problem_of
from kais_mcp.ports import Knowledge
from knowledge_client.error_codes import ErrorCode
from knowledge_client.models import Fact, GraphNamesIn

Kind = Literal["fact", "entity", "chart"]
_ROOTS: Mapping[Kind, str] = {
    "fact": "kais://facts/",
    "entity": "kais://entities/",
    "chart": "kais://charts/",
}
_FACTS_PER_PAGE = 50
_CHARTS_PER_PAGE = 20
_MAX_NAME = 80


@dataclass(frozen=True)
class Reference:
    """The object of a URI."""

    kind: Kind
    id: str

    @property
    def uri(self) -> str:
        """The URI, with everything but unreserved characters escaped."""
        return _ROOTS[self.kind] + quote(self.id, safe="")


@dataclass(frozen=True)
class Template:
    """The URIs of one kind."""

    kind: Kind
    uri_template: str
    description: str


TEMPLATES = (
    Template(
        "fact",
        "kais://facts/{id}",
        "One fact with all its fields, by its id or alias:NAMESPACE:VALUE.",
    ),
    Template("entity", "kais://entities/{name}", "An entity of the graph with its observations."),
    Template("chart", "kais://charts/{id}", "A structural tension chart with its progress."),
)


@dataclass(frozen=True)
class Resource:
    """An entry of a list of resources."""

    reference: Reference
    name: str
    description: str


@dataclass(frozen=True)
class Page:
    """A page of resources; without `cursor` it is the last one."""

    resources: tuple[Resource, ...]
    cursor: str | None


def parse(uri: str) -> Reference | None:
    """Return what a URI names; None if it is no URI of a resource."""
    for kind, root in _ROOTS.items():
        if uri.startswith(root):
            return Reference(kind, unquote(uri.removeprefix(root)))
    return None


async def list_page(knowledge: Knowledge, cursor: str | None) -> Page:
    """Return a page of resources; kinds without resources are skipped.

    Raises:
        ToolFailure: the cursor is malformed.
    """
    kind, inner_cursor = _decode(cursor)
    kinds = tuple(_ROOTS)
    resources: tuple[Resource, ...] = ()
    next_cursor: str | None = None
    for listed_kind in kinds[kinds.index(kind) :]:
        if resources:
            return Page(resources, f"{listed_kind}:")
        resources, next_cursor = await _LISTS[listed_kind](knowledge, inner_cursor)
        inner_cursor = None
        if next_cursor:
            return Page(resources, f"{listed_kind}:{next_cursor}")
    return Page(resources, None)


async def read(knowledge: Knowledge, reference: Reference) -> dict[str, Any]:
    """Return the content of a resource.

    Raises:
        ToolFailure: there is no such entity.
    """
    model: pydantic.BaseModel
    if reference.kind == "fact":
        model = await knowledge.get_fact(reference.id)
    elif reference.kind == "entity":
        model = await _open_entity(knowledge, reference.id)
    else:
        model = await knowledge.get_chart(reference.id)
    return {reference.kind: model.model_dump(mode="json", by_alias=True)}


async def _open_entity(knowledge: Knowledge, name: str) -> pydantic.BaseModel:
    try:
        names = GraphNamesIn(names=(name,))
    except pydantic.ValidationError:
        raise _no_entity(name) from None
    entities = (await knowledge.open_entities(names)).entities
    if not entities:
        raise _no_entity(name)
    return entities[0]


def _no_entity(name: str) -> ToolFailure:
    detail = f"entity {name[:_MAX_NAME]!r} does not exist or is not visible to you"
    return ToolFailure(problem_of(ErrorCode.NOT_FOUND, "Not found", 404, detail))


def _decode(cursor: str | None) -> tuple[Kind, str | None]:
    prefix, _, inner_cursor = (cursor or "fact:").partition(":")
    for kind in _ROOTS:
        if prefix == kind:
            return kind, inner_cursor or None
    detail = "the cursor is not one of a list of resources"
    raise ToolFailure(problem_of(ErrorCode.INVALID_TOKEN, "Invalid cursor", 400, detail))


_List = Callable[[Knowledge, str | None], Awaitable[tuple[tuple[Resource, ...], str | None]]]


async def _list_facts(
    knowledge: Knowledge, cursor: str | None
) -> tuple[tuple[Resource, ...], str | None]:
    page = await knowledge.list_facts(cursor=cursor, limit=_FACTS_PER_PAGE)
    resources = (
        Resource(Reference("fact", fact.id), _name(fact.title or fact.content), _origin(fact))
        for fact in page.facts
    )
    return tuple(resources), page.cursor


async def _list_entities(
    knowledge: Knowledge, cursor: str | None
) -> tuple[tuple[Resource, ...], str | None]:
    page = await knowledge.list_facts(
        alias_namespace="entity", kind="entity", cursor=cursor, limit=_FACTS_PER_PAGE
    )
    return tuple(_distinct(page.facts)), page.cursor


def _distinct(facts: Iterable[Fact]) -> Iterable[Resource]:
    """Yield one resource for each name: several visible realms may have it."""
    for name, fact in {fact.content: fact for fact in facts}.items():
        yield Resource(Reference("entity", name), _name(name), _origin(fact))


async def _list_charts(
    knowledge: Knowledge, cursor: str | None
) -> tuple[tuple[Resource, ...], str | None]:
    page = await knowledge.list_charts(cursor=cursor, limit=_CHARTS_PER_PAGE)
    resources = (
        Resource(
            Reference("chart", chart.id),
            _name(chart.desired_outcome),
            f"chart in {chart.scope}; untrusted data",
        )
        for chart in page.charts
    )
    return tuple(resources), page.cursor


_LISTS: Mapping[Kind, _List] = {
    "fact": _list_facts,
    "entity": _list_entities,
    "chart": _list_charts,
}


def _origin(fact: Fact) -> str:
    return f"{fact.kind} in {fact.scope}; untrusted data"


def _name(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_NAME else f"{line[:_MAX_NAME]}…"
