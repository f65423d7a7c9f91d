"""Copies what cells stored in their own scopes to the scope of their Blueprint.

Earlier versions stored everything that a cell remembered in the scope of that cell. An adoption
promotes these facts by one level; the originals stay. Undoing one closes its copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kais.scopes import Level, Scope
from knowledge_client import errors, models

if TYPE_CHECKING:
    from knowledge_client import KnowledgeClient

_PAGE = 100
_REASON = models.ReasonIn(reason="adopted from the scope of a cell")


@dataclass(frozen=True)
class Adoption:
    """The copies that were made, and the facts that could not be copied, with the reason."""

    copies: tuple[models.PromotionResult, ...]
    refused: tuple[tuple[str, str], ...]


def list_adoptable(client: KnowledgeClient, parent_scope: str) -> tuple[models.Fact, ...]:
    """List the live facts of cells that their Blueprint's scope lacks, oldest first.

    `parent_scope` is the path of a realm or of a formation with the cells below it.
    """
    own_facts: list[models.Fact] = []
    shared: dict[str, set[tuple[object, ...]]] = {}
    for path in _cell_scopes(client, parent_scope):
        parent = str(Scope.parse(path).parent)
        if parent not in shared:
            shared[parent] = {_statement(fact) for fact in _live_facts(client, parent)}
        own_facts += [
            fact for fact in _live_facts(client, path) if _statement(fact) not in shared[parent]
        ]
    return tuple(sorted(own_facts, key=lambda fact: (fact.recorded_at, fact.id)))


def adopt_facts(client: KnowledgeClient, facts: Sequence[models.Fact]) -> Adoption:
    """Copy facts one level up; a fact that contradicts one there is left out with the reason."""
    copies: list[models.PromotionResult] = []
    refused: list[tuple[str, str]] = []
    for fact in facts:
        try:
            copies.append(client.promote(fact.id, _REASON))
        except errors.Conflict as exc:
            refused.append((fact.id, str(exc)))
    return Adoption(tuple(copies), tuple(refused))


def _cell_scopes(client: KnowledgeClient, parent_scope: str) -> Iterator[str]:
    cursor = None
    while True:
        page = client.list_scopes(cursor=cursor, limit=_PAGE)
        for entry in page.scopes:
            scope = Scope.parse(entry.path)
            is_below = entry.path.startswith(f"{parent_scope}/")
            if is_below and scope.level is Level.CELL and scope.formation is not None:
                yield entry.path
        cursor = page.cursor
        if cursor is None:
            return


def _live_facts(client: KnowledgeClient, path: str) -> Iterator[models.Fact]:
    cursor = None
    while True:
        page = client.list_facts(scope=path, lifecycle="live", cursor=cursor, limit=_PAGE)
        yield from page.facts
        cursor = page.cursor
        if cursor is None:
            return


def _statement(fact: models.Fact) -> tuple[object, ...]:
    content = " ".join(fact.content.split())
    return fact.kind, fact.about or fact.subject, fact.predicate, content, repr(fact.data)
