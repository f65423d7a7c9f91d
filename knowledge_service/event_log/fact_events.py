"""Events about facts: their types, and how each changes a fact.

The rules map values to values, so that every store applies an event alike.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kais import facts as kais_facts
from knowledge_service.domain import fact_fields
from knowledge_service.domain.fact_text import rendering
from knowledge_service.domain.facts import key_hash
from knowledge_service.event_log.events import Event

Part = Mapping[str, Any]

RECORDED = "fact.recorded"
RESTATED = "fact.restated"
CONFIRMED = "fact.confirmed"
REVIEWED = "fact.reviewed"
ERASED = "fact.erased"
CHANGES = (
    CONFIRMED, "fact.closed", "fact.restored", REVIEWED, "fact.flagged", "fact.archived",
    "fact.undone", "fact.bounded",
)  # fmt: skip
"""Types of the events that set columns of facts."""
CHANGEABLE = (*fact_fields.CHANGEABLE, "lifecycle", "closed_at", "closed_reason", "closed_by")
"""The columns of a fact that an event may set; the others never change."""


@dataclass(frozen=True)
class FactChange:
    """The effect of an event on a fact."""

    columns: Mapping[str, Any]
    """The changeable columns after the event."""
    live_delta: int
    """The change of the scope's number of live facts."""


def compute_change(old_values: Mapping[str, Any], values: Mapping[str, Any]) -> FactChange | None:
    """Return the effect of the values that a part sets; None when none of them is new.

    In that case the fact gets no new version.
    """
    new_values = {**old_values, **values}
    if new_values == old_values:
        return None
    delta = (new_values["lifecycle"] == "live") - (old_values["lifecycle"] == "live")
    return FactChange(new_values, delta)


def normalize_tags(tags: Iterable[str]) -> set[str]:
    """Return tags in the form that searches compare."""
    return {kais_facts.normalize_tag(tag) for tag in tags}


def index_text(part: Part) -> tuple[int, str]:
    """Return the number of a recorded fact, and the text to index."""
    return part["no"], rendering(part)


def index_texts(event: Event) -> Collection[tuple[int, str]]:
    """Return the number and text of each fact that an event recorded."""
    return [index_text(part) for part in event.remaining_parts()]


def key_hash_of(part: Part) -> bytes | None:
    """Return the hash of a recorded fact's key of supersession."""
    return key_hash(part.get("subject"), part.get("predicate"))
