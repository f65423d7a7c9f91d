"""Archives the facts beyond a scope's bound. Each can be restored."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge_service.domain.retention import Choice
from knowledge_service.fact_transactions.unit_of_work import FactUnitOfWork
from knowledge_service.ports import Actor

ACTOR = Actor("kais-retention", "system")


def archive(uow: FactUnitOfWork, scope: str, chosen: Sequence[Choice]) -> None:
    """Archive facts of a scope."""
    uow.begin()
    parts = [
        {
            "fact": choice.fact_id,
            "set": {
                "lifecycle": "archived", "closed_at": uow.at_us, "closed_reason": choice.reason,
                "closed_by": ACTOR.name,
            },
        }
        for choice in chosen
    ]  # fmt: skip
    if parts:
        uow.record("fact.archived", scope=scope, actor=ACTOR, parts=parts)
