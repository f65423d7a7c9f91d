"""A fact as the log has it."""

from __future__ import annotations

from typing import Any

from knowledge_service.domain.facts import NewFact
from knowledge_service.store import times


def fields(
    new: NewFact, fact_id: str, sources: dict[int, dict[str, Any]] | None = None
) -> dict[str, Any]:
    """Write a fact; what it has not is left out. `sources` remembers those of facts before it."""
    known = {} if sources is None else sources
    source = known.get(id(new.source))
    if source is None:
        source = new.source.model_dump(mode="json", exclude_none=True)
        known[id(new.source)] = source
    given = {
        "fact": fact_id, "kind": new.kind, "title": new.title, "content": new.content,
        "data": new.data, "schema": new.schema, "about": new.about, "position": new.position,
        "subject": new.subject, "predicate": new.predicate, "tags": new.tags,
        "confidence": new.confidence,
        "source": source,
        "expires_at": times.to_us(new.expires_at), "valid_from": times.to_us(new.valid_from),
        "valid_until": times.to_us(new.valid_until), "flags": new.flags or None,
        "review": None if new.review == "none" else new.review,
    }  # fmt: skip
    return {name: value for name, value in given.items() if value is not None}
