"""Facts that a full scope lets go of: archived together, each restorable."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge_service.ports import Actor
from knowledge_service.store.verbs.desk import Desk

ACTOR = Actor("kais-retention", "system")


def archive(desk: Desk, scope: str, chosen: Sequence[tuple[str, str]]) -> None:
    """Archive facts of a scope, given with the reason for each."""
    desk.begin()
    parts = [
        {
            "fact": fact_id,
            "set": {
                "lifecycle": "archived", "closed_at": desk.at_us, "closed_reason": reason,
                "closed_by": ACTOR.name,
            },
        }
        for fact_id, reason in chosen
    ]  # fmt: skip
    if parts:
        desk.record("fact.archived", scope=scope, actor=ACTOR, parts=parts)
