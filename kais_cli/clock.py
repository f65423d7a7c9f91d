"""The only module of this package that reads the clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now() -> datetime:
    """Return the current time, with a time zone."""
    return datetime.now(UTC)


def monotonic_s() -> float:
    """Return the seconds of the monotonic clock."""
    return time.monotonic()
