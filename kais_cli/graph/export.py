"""Read the whole graph as lines of a memory file: every entity, then every relation."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kais_cli import errors
from kais_cli.graph import records

if TYPE_CHECKING:
    from knowledge_client import KnowledgeClient
    from knowledge_client.models import Graph, GraphEntity

_PAGE = 50
_MAX_OBSERVATIONS = 500  # of an entity in a page; the others are read as facts about it
_MAX_RELATIONS = 10_000  # that lead from the entities of a page
_FACTS = 500


def lines(client: KnowledgeClient, *, scope: str | None) -> Iterator[str]:
    """Yield the lines with one page in memory; relations wait in a temporary file.

    Raises:
        Refused: more relations lead from the entities of a page than the service returns.
    """
    cursor: str | None = None
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="surrogatepass") as relations:
        while True:
            page = client.read_graph(scope=scope, cursor=cursor, limit=_PAGE, outgoing=True)
            require_all_relations(page)
            for entity in page.entities:
                yield records.format_entity(entity, observations_of(client, entity))
            relations.writelines(map(records.format_relation, page.relations))
            cursor = page.cursor
            if cursor is None:
                break
        relations.seek(0)
        yield from relations


def require_all_relations(page: Graph) -> None:
    """Require that a page has every relation that leads from its entities.

    Raises:
        Refused: there are more than the service returns.
    """
    if len(page.relations) >= _MAX_RELATIONS:
        names = ", ".join(repr(entity.name) for entity in page.entities[:3])
        raise errors.Refused(
            f"more than {_MAX_RELATIONS:,} relations lead from {names} and the entities after them;"
            " not all of them would be returned"
        )


def observations_of(client: KnowledgeClient, entity: GraphEntity) -> tuple[str, ...]:
    """Return all observations of an entity; a page has at most 500 of them."""
    if len(entity.observations) < _MAX_OBSERVATIONS:
        return entity.observations
    texts: list[str] = []
    cursor: str | None = None
    while True:
        page = client.list_facts(
            about=entity.id, kind="observation", lifecycle="live", cursor=cursor, limit=_FACTS
        )
        texts += [fact.content for fact in page.facts]
        cursor = page.cursor
        if cursor is None:
            return tuple(texts)
