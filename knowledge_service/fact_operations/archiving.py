"""Facts that a full scope lets go of: archived together, each restorable."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge_service.domain.retention import Choice
from knowledge_service.fact_operations.desk import Desk
from knowledge_service.ports import Actor

ACTOR = Actor("kais-retention", "system")


def archive(desk: Desk, scope: str, chosen: Sequence[Choice]) -> None:
    """Archive facts of a scope."""
    desk.begin()
    parts = [
        {
            "fact": each.fact_id,
            "set": {
                "lifecycle": "archived", "closed_at": desk.at_us, "closed_reason": each.reason,
                "closed_by": ACTOR.name,
            },
        }
        for each in chosen
    ]  # fmt: skip
    if parts:
        desk.record("fact.archived", scope=scope, actor=ACTOR, parts=parts)
