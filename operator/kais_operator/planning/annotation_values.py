"""Reads what the operator left in annotations, where everybody with edit rights may write.

Numbers, times and texts are taken only as they are written there by the operator: whatever else
stands there is a ValueError for who reads, and never one for who reckons with it later.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kais import labels

BROKEN = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What reading an edited note may raise."""
MAX_NUMBER = 10**9 - 1
"""Highest number that a note holds: of attempts, revisions, facts."""
_MAX_DIGITS = 9
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_FIRST_YEAR, _LAST_YEAR = 1971, 9000
"""Far enough from what a datetime holds that a zone or a time limit stays in it."""


def parse(text: str | None) -> Any:
    """Read JSON; None for no text.

    Raises:
        ValueError: It is not JSON, or nested deeper than anybody means.
    """
    try:
        return json.loads(text) if text else None
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc


def number(value: Any, *, minimum: int = 0) -> int:
    """Take a whole number; raises ValueError for anything else."""
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= MAX_NUMBER:
        raise ValueError(f"{type(value).__name__} is no number of a note")
    return value


def optional_number(value: Any, *, minimum: int = 0) -> int | None:
    """Take a whole number or None; raises ValueError for anything else."""
    return None if value is None else number(value, minimum=minimum)


def parse_text(value: Any) -> str:
    """Take a text, empty for None; raises ValueError for anything else."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{type(value).__name__} is no text of a note")  # noqa: TRY004 - one error for all
    return value.encode("utf-8", "replace").decode()


def time(value: Any) -> datetime | None:
    """Take a time with its zone, or None; raises ValueError for anything else."""
    text = parse_text(value)
    if not text:
        return None
    timestamp = datetime.fromisoformat(text)
    if timestamp.tzinfo is None or not _FIRST_YEAR <= timestamp.year <= _LAST_YEAR:
        raise ValueError("no time of a note")
    return timestamp


def parse_digits(text: str | None) -> int | None:
    """Read a number that stands alone in an annotation or label; None when none does."""
    is_number = text is not None and text.isdecimal() and len(text) <= _MAX_DIGITS
    return int(text) if text is not None and is_number else None


def run_id(annotations: Mapping[str, str]) -> str | None:
    """Read which run an object has begun; None before it, and for what no run is called."""
    text = annotations.get(labels.RUN_ID)
    return text if text is not None and _RUN_ID.fullmatch(text) else None
