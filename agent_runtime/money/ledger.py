"""The ledger of the cell: each call of the model with its reservation and its cost, in SQLite.

A call is written before it is sent. If the process is killed meanwhile, the call stays open and
counts with its reservation. Costs are integers of 10^-12 US dollars, so sums are exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from pathlib import Path
from typing import Final

from agent_runtime import sqlite_file
from agent_runtime.money.prices import CallUsage

HOUR_S: Final = 3600
_UNIT: Final = Decimal("1e-12")
_MAX_UNITS: Final = 10**16
"""$10,000 for a call: SQLite adds up integers of 63 bits, and a conversation has few calls."""
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS call (
    id INTEGER PRIMARY KEY,
    started_at REAL NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'settled', 'estimated', 'released')),
    cost INTEGER NOT NULL CHECK (cost >= 0),
    task TEXT NOT NULL DEFAULT '',
    input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX IF NOT EXISTS call_started_at ON call (started_at);
"""


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Sums of the ledger, in US dollars; open calls count with their reservations.

    Attributes:
        spent: cost of all calls.
        spent_hour: cost of the calls that started within the last hour.
        task_spent: cost of the calls of one task; the fields below are also for this task.
        estimated: the part of `task_spent` that is reserved for calls whose usage is unknown.
        turns: calls that were answered.
    """

    spent: Decimal
    spent_hour: Decimal
    task_spent: Decimal
    estimated: Decimal
    input_tokens: int
    output_tokens: int
    turns: int


class Ledger:
    """The calls of one cell in one file; the methods may be called from one thread."""

    def __init__(self, path: Path) -> None:
        """Open the file, or create it.

        Raises:
            AgentError: The file is damaged or cannot be written.
        """
        self._path = path
        with self._errors():
            self._connection = sqlite_file.open_file(path, _SCHEMA)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block in one transaction; other processes wait."""
        with self._errors(), sqlite_file.transaction(self._connection):
            yield

    def open_call(self, *, started_at: float, reserved: Decimal, task: str = "") -> int:
        """Record a call before it is sent, and return its id."""
        with self._errors():
            cursor = self._connection.execute(
                "INSERT INTO call (started_at, state, cost, task) VALUES (?, 'open', ?, ?)",
                (started_at, _units(reserved), task),
            )
        return int(cursor.lastrowid or 0)

    def settle(self, call: int, *, cost: Decimal, usage: CallUsage) -> None:
        """Replace the reservation of a call by its cost."""
        with self._errors():
            self._connection.execute(
                "UPDATE call SET state = 'settled', cost = ?, input_tokens = ?, output_tokens = ?"
                " WHERE id = ?",
                (_units(cost), usage.input_tokens, usage.output_tokens, call),
            )

    def estimate(self, call: int, usage: CallUsage | None) -> None:
        """Keep the reservation of a call as its cost; `usage` is None if it got no answer."""
        tokens = (usage.input_tokens, usage.output_tokens) if usage else (0, 0)
        with self._errors():
            self._connection.execute(
                "UPDATE call SET state = 'estimated', input_tokens = ?, output_tokens = ?"
                " WHERE id = ?",
                (*tokens, call),
            )

    def release(self, call: int) -> None:
        """Drop the reservation of a call that the provider did not charge."""
        with self._errors():
            self._connection.execute(
                "UPDATE call SET state = 'released', cost = 0 WHERE id = ?", (call,)
            )

    def totals(self, *, now_s: float, task: str = "") -> Totals:
        """Add the calls up, of the cell and of one task."""
        with self._errors():
            row = self._connection.execute(
                "SELECT coalesce(sum(cost), 0),"
                " coalesce(sum(cost) FILTER (WHERE started_at > ?1), 0),"
                " coalesce(sum(cost) FILTER (WHERE task = ?2), 0),"
                " coalesce(sum(cost) FILTER"
                " (WHERE task = ?2 AND state IN ('open', 'estimated')), 0),"
                " coalesce(sum(input_tokens) FILTER (WHERE task = ?2), 0),"
                " coalesce(sum(output_tokens) FILTER (WHERE task = ?2), 0),"
                " count(*) FILTER (WHERE task = ?2 AND (state = 'settled' OR output_tokens > 0))"
                " FROM call",
                (now_s - HOUR_S, task),
            ).fetchone()
        return Totals(
            spent=row[0] * _UNIT,
            spent_hour=row[1] * _UNIT,
            task_spent=row[2] * _UNIT,
            estimated=row[3] * _UNIT,
            input_tokens=row[4],
            output_tokens=row[5],
            turns=row[6],
        )

    def _errors(self) -> AbstractContextManager[None]:
        return sqlite_file.mapped_errors(
            f"the ledger {self._path}", consequence="; no call is sent without it"
        )


def _units(cost: Decimal) -> int:
    return min(int((cost / _UNIT).to_integral_value(rounding=ROUND_CEILING)), _MAX_UNITS)
