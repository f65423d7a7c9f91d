"""Takes back what migrations have made, for tests of files of earlier versions."""

from __future__ import annotations

import apsw


def drop_runs_of_agents(database: apsw.Connection) -> None:
    """Drop what migration 27 has made; the caller deletes its record."""
    database.execute("ALTER TABLE run DROP COLUMN by_agent")


def drop_outcome_totals(database: apsw.Connection) -> None:
    """Drop what migrations 25 and later have made; the caller deletes their records."""
    drop_runs_of_agents(database)
    triggers = database.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'")
    for (name,) in triggers.fetchall():
        database.execute(f'DROP TRIGGER "{name}"')
    database.execute(
        "DROP TABLE fact_outcome; DROP TABLE scope_outcome; DROP INDEX scope_usage_seen"
    )
