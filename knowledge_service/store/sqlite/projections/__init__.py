"""Events into tables: one room per family, the same code for the live write and for a rebuild.

An application is a few statements over an event's parts and reads nothing but the tables it writes.
A part that was erased, or that speaks of a fact that was, changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import apsw

from knowledge_service.event_log.events import Event
from knowledge_service.store.sqlite.projections import (
    erasure,
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
    **erasure.EVENTS,
    **usage.EVENTS,
}

TABLES: tuple[str, ...] = (
    "fact_event", "fact_past", "fact_tag", "alias", "sequence", "link", "confirmation", "review",
    "promotion", "fact", "episode", "extraction", "run", "principal", "scope",
)  # fmt: skip
"""Every table that a replay drops, in an order in which rows can go; the index is beside them."""


def apply(connection: apsw.Connection, event: Event) -> None:
    """Do what an event says to the tables."""
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

    def apply(self, event: Event) -> None:
        """Do what an event says to the tables."""
        apply(self._connection, event)
