"""Takes back what migrations have made, for tests of files of earlier versions."""

from __future__ import annotations

import apsw


def drop_outcome_totals(database: apsw.Connection) -> None:
    """Drop what migration 25 has made; the caller deletes its record."""
    triggers = database.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'")
    for (name,) in triggers.fetchall():
        database.execute(f'DROP TRIGGER "{name}"')
    database.execute(
        "DROP TABLE fact_outcome; DROP TABLE scope_outcome; DROP INDEX scope_usage_seen"
    )
