"""The only module of the service that reads the clock.

Everything else takes `now` as an argument or a `Clock`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def now() -> datetime:
    """Return the current time, aware, in UTC."""
    return datetime.now(UTC)
