"""The one reader of the clock in this package."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """Return the present time, aware."""
    return datetime.now(UTC)
