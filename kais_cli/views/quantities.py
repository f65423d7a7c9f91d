"""Format ages, durations, shares and intervals for people. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta


def format_age(since: datetime | None, now: datetime) -> str | None:
    """Format an age as one number with a unit, as kubectl does: `45s`, `119s`, `12m`, `5h`, `3d`.

    The unit is minutes from 2 minutes on, hours from 2 hours on, and days from 1 day on. None if
    the age is unknown.
    """
    if since is None:
        return None
    seconds = max(0, int((now - since).total_seconds()))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size or (unit == "d" and seconds >= size):
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def format_duration(duration: timedelta) -> str:
    """Format a duration: `4s`, `2m5s`."""
    minutes, seconds = divmod(max(0, int(duration.total_seconds())), 60)
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"


def format_percent(share: float | None) -> str | None:
    """Format a share from 0 to 1 in whole percent; None if unknown."""
    return None if share is None else f"{share:.0%}"


def format_interval(low: float, high: float) -> str:
    """Format an interval whose ends are shares from 0 to 1: `62-97%`."""
    return f"{low * 100:.0f}-{high * 100:.0f}%"
