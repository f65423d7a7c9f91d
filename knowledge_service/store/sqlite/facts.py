"""The facts' port over tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from pydantic import TypeAdapter

from kais import facts as kais_facts
from knowledge_client.models import Corrected, Fact, Remembered
from knowledge_service.domain import facts as domain
from knowledge_service.domain.facts import NewFact
from knowledge_service.domain.visibility import View
from knowledge_service.errors import Conflict, NotFound
from knowledge_service.ports import Actor, Listing, Once
from knowledge_service.store.sqlite import naming, part, rows, statements
from knowledge_service.store.sqlite.transaction import Transaction

_REMEMBERED: TypeAdapter[tuple[Remembered, ...]] = TypeAdapter(tuple[Remembered, ...])
_CORRECTED: TypeAdapter[Corrected] = TypeAdapter(Corrected)
_BY_ID = f"{rows.SELECT} WHERE f.id = ? AND s.retired_at IS NULL"
_FOR_CLOSING = """SELECT content_hash, lifecycle, closed_reason
  FROM fact f JOIN scope s USING(scope_no) WHERE f.id = ? AND s.retired_at IS NULL"""
_LIST = f"""{rows.SELECT} WHERE f.scope_no IN (SELECT value FROM json_each(?1))
  AND (?2 IS NULL OR f.kind = ?2) AND (?3 IS NULL OR f.lifecycle = ?3)
  AND (?4 IS NULL OR f.source_type = ?4) AND (?5 IS NULL OR f.id < ?5)
  AND (?6 IS NULL OR EXISTS (SELECT 1 FROM fact_tag t
    WHERE t.scope_no = f.scope_no AND t.tag = ?6 AND t.fact_no = f.fact_no))
  ORDER BY f.id DESC LIMIT ?7"""


class Facts(part.Part):
    """The `FactStore` port."""

    def remember(
        self, facts: Sequence[NewFact], *, actor: Actor, once: Once | None = None
    ) -> tuple[Remembered, ...]:
        """Store all or none."""
        return self._writer.submit(_remembering(facts, actor, once))

    async def remembered(
        self, facts: Sequence[NewFact], *, actor: Actor, once: Once | None = None
    ) -> tuple[Remembered, ...]:
        """Store all or none."""
        return await self._writer.submitted(_remembering(facts, actor, once))

    def fact(self, fact_id: str, view: View) -> Fact | None:
        """Look one up."""
        with self._readers.snapshot() as connection:
            for fact in rows.facts(connection, _BY_ID, (fact_id,)):
                return fact if view.sees(fact.scope) else None
        return None

    def list_facts(self, listing: Listing) -> tuple[Fact, ...]:
        """List a page."""
        tag = kais_facts.normal_tag(listing.tag) if listing.tag else None
        with self._readers.snapshot() as connection:
            scopes = part.scopes_seen(connection, listing.view, listing.scopes)
            bindings = (
                json.dumps(sorted(scopes)), listing.kind, listing.lifecycle, listing.source,
                listing.before, tag, listing.limit,
            )  # fmt: skip
            return tuple(rows.facts(connection, _LIST, bindings))

    def correct(
        self, fact_id: str, reason: str, replacement: str | None, *, actor: Actor,
        once: Once | None = None,
    ) -> Corrected:  # fmt: skip
        """Close a fact and link its successor."""
        return self._once(
            once,
            _CORRECTED,
            lambda tx: _correct(tx, fact_id, (reason, replacement), actor),
        )


def _remembering(
    facts: Sequence[NewFact], actor: Actor, once: Once | None
) -> Callable[[Transaction], tuple[Remembered, ...]]:
    return part.repeatable(
        once,
        _REMEMBERED,
        lambda tx: naming.name_all(tx, facts, statements.store_all(tx, facts, actor), actor),
    )


def _correct(
    tx: Transaction,
    fact_id: str,
    change: tuple[str, str | None],
    actor: Actor,
) -> Corrected:
    reason, content = change
    row = tx.one(_FOR_CLOSING, (fact_id,))
    if row is None:
        raise NotFound(f"fact {fact_id} does not exist or is not visible to you")
    old_hash, lifecycle, closed_reason = row
    if lifecycle != "live":
        raise Conflict(f"fact {fact_id} is {lifecycle} already: {closed_reason}")
    old = next(rows.facts(tx.connection, _BY_ID, (fact_id,)))
    if content is None:
        statements.close(tx, fact_id, "retracted", reason, actor, until=tx.at_us)
        return Corrected(fact_id=fact_id)
    new = domain.replacement(old, content, actor.name)
    if new.content_hash == old_hash:
        raise Conflict(f"the replacement of fact {fact_id} says the same; give other words")
    statements.close(tx, fact_id, "superseded", reason, actor, until=tx.at_us)
    successor = statements.store(tx, new, actor)
    statements.link(tx, successor.fact_id, fact_id, "supersedes", actor)
    naming.hand_over(tx, fact_id, successor.fact_id, actor)
    return Corrected(fact_id=fact_id, replacement_id=successor.fact_id)
