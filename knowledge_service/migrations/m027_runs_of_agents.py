"""Whether an agent opened a run. NULL is a run from before this was recorded."""

from __future__ import annotations

SQLITE = "ALTER TABLE run ADD COLUMN by_agent INTEGER;"
