"""Parse dates and times as people type them. Pure: the current time is an argument."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from kais_cli import errors

HELP = "A day or a time: 2026-05-31, 2026-05-31T08:30+02:00, yesterday, 3d ago. Default zone: UTC."

_DAYS = {"today": 0, "yesterday": 1}
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_UNIT_NAMES = {
    "second": "s",
    "sec": "s",
    "minute": "m",
    "min": "m",
    "hour": "h",
    "day": "d",
    "week": "w",
}
_AGO = re.compile(r"(\d{1,6})\s*([a-z]+?)s?\s+ago")
_DAY_FIRST = re.compile(r"\d{1,2}[./]\d{1,2}[./]\d{4}")


def parse(argument: str | None, *, option: str, now: datetime) -> datetime | None:
    """Parse a time; a date stands for its first moment, and UTC is the default time zone.

    Raises:
        UsageError: The text is not a time, or outside of the supported years; names `option`.
    """
    if argument is None:
        return None
    text = " ".join(argument.casefold().split())
    try:
        parsed = _relative(text, now) or datetime.fromisoformat(text.upper())
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise errors.UsageError(f"{option} {argument!r} is not a day or time{_hint(text)}") from exc


def _relative(text: str, now: datetime) -> datetime | None:
    if text == "now":
        return now
    if text in _DAYS:
        midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        return midnight - timedelta(days=_DAYS[text])
    ago = _AGO.fullmatch(text)
    if ago is None:
        return None
    unit = _UNIT_NAMES.get(ago[2], ago[2])
    if unit not in _UNITS:
        raise ValueError(unit)
    return now - timedelta(seconds=int(ago[1]) * _UNITS[unit])


def _hint(text: str) -> str:
    if _DAY_FIRST.fullmatch(text):
        return "; write the year first, as 2026-05-31"
    return "; write 2026-05-31, 2026-05-31T08:30Z, 2026-05-31T08:30+02:00, yesterday or 3d ago"
