"""The totals of outcomes over all observers that exist: triggers of migration 25 keep them.

They are sums of `usage` and `scope_usage`, which are beside the log. So a replay does not fill
them, and an export leaves them out: the triggers sum the rows of an import.
"""

from __future__ import annotations

import apsw

TABLES = ("fact_outcome", "scope_outcome")
"""The tables of totals, by fact and by scope."""
_REFILL = (
    "DELETE FROM fact_outcome",
    """INSERT INTO fact_outcome(fact_no, kind, count)
  SELECT u.fact_no, u.kind, sum(u.count) FROM usage u JOIN scope s ON s.scope_no = u.observer_no
  WHERE u.kind IN ('succeeded', 'failed') AND s.retired_at IS NULL GROUP BY u.fact_no, u.kind""",
    "DELETE FROM scope_outcome",
    """INSERT INTO scope_outcome(scope_no, kind, count)
  SELECT u.scope_no, u.kind, sum(u.count) FROM scope_usage u
  JOIN scope s ON s.scope_no = u.observer_no
  WHERE u.kind IN ('succeeded', 'failed') AND s.retired_at IS NULL GROUP BY u.scope_no, u.kind""",
)


def refill(connection: apsw.Connection) -> None:
    """Sum all rows again, whatever the tables have."""
    for statement in _REFILL:
        connection.execute(statement)
