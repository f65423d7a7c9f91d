"""Applies events to tables: one module per family, the same code for live writes and rebuilds.

An application is a few statements over an event's parts, and reads only the tables that it writes.
An erased part, or a part about an erased fact, changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import apsw

from knowledge_service.event_log.events import Event
from knowledge_service.store.sqlite.projections import (
    erased_facts,
    facet_index,
    facts,
    legacy_rows,
    links,
    promotions,
    runs,
    scope_adoption,
    scopes,
    usage,
)

Apply = Callable[[apsw.Connection, Event], None]

_HANDLERS: Mapping[str, Apply] = {
    **legacy_rows.EVENTS,
    **facts.EVENTS,
    **links.EVENTS,
    **promotions.EVENTS,
    **runs.EVENTS,
    **scopes.EVENTS,
    **scope_adoption.EVENTS,
    **erased_facts.EVENTS,
    **usage.EVENTS,
}
EVENT_TYPES = frozenset(_HANDLERS)
"""Every event type that a log may contain."""

TABLES: tuple[str, ...] = (
    "fact_event", "fact_past", "fact_tag", "alias", "sequence", "link", "confirmation", "review",
    "promotion", "fact", "episode", "extraction", "run", "principal", "scope",
)  # fmt: skip
"""Every table that a replay drops, in an order in which rows can be deleted; without the index."""


def apply(connection: apsw.Connection, event: Event) -> None:
    """Apply an event to the tables."""
    _HANDLERS[event.type](connection, event)


class SqliteProjections:
    """The `Projections` port over one connection."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def clear(self) -> None:
        """Empty every table that a replay fills."""
        self._connection.execute("PRAGMA defer_foreign_keys=ON")
        for table in TABLES:
            self._connection.execute(f'DELETE FROM "{table}"')
        facet_index.clear(self._connection)

    def apply(self, event: Event) -> None:
        """Apply an event to the tables."""
        apply(self._connection, event)
