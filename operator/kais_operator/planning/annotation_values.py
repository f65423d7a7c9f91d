"""Parse values that the operator stored in annotations, which users with edit rights can change.

Numbers, times and texts are accepted only in the form in which the operator writes them. Any other
value raises ValueError here, so later computations cannot fail.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from kais import labels
from kais.encodable_text import encodable

BROKEN = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""Exceptions that an edited annotation may raise when it is parsed."""
MAX_NUMBER = 10**9 - 1
"""Largest number in an annotation: of attempts, revisions, facts."""
_MAX_DIGITS = 9
_MAX_COST = Decimal(10**15)
_MAX_EXPONENT = 60
_USER_NAME_LIMIT = 1024
"""Characters of a user name that a status repeats."""
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_FIRST_YEAR, _LAST_YEAR = 1971, 9000
"""Far enough from the limits of datetime to add a time zone or a timeout."""


def parse(text: str | None) -> Any:
    """Parse JSON; None for no text.

    Raises:
        ValueError: The text is not JSON, or is nested too deeply.
    """
    try:
        return json.loads(text) if text else None
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc


def number(value: Any, *, minimum: int = 0) -> int:
    """Check that a value is a whole number in range.

    Raises:
        ValueError: It is not.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= MAX_NUMBER:
        raise ValueError(f"{type(value).__name__} is no number of a note")
    return value


def optional_number(value: Any, *, minimum: int = 0) -> int | None:
    """Check that a value is None or a whole number in range.

    Raises:
        ValueError: It is not.
    """
    return None if value is None else number(value, minimum=minimum)


def parse_user_name(value: Any) -> str:
    """Return the user name of an annotation, cut to what a status repeats; empty for None."""
    return parse_text(value)[:_USER_NAME_LIMIT]


def parse_text(value: Any) -> str:
    """Return a text with broken surrogates replaced; empty for None.

    Raises:
        ValueError: The value is neither a text nor None.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{type(value).__name__} is no text of a note")  # noqa: TRY004 - one error for all
    return encodable(value)


def parse_cost(value: Any) -> Decimal:
    """Parse an amount of US dollars, whose text has a length in proportion.

    Raises:
        ValueError: It is not an amount from 0 to 10^15, or has more than 60 decimals.
    """
    text = parse_text(value)
    try:
        cost = Decimal(text)
    except InvalidOperation as exc:
        raise ValueError("no cost of a note") from exc
    exponent = cost.as_tuple().exponent
    if not isinstance(exponent, int) or abs(exponent) > _MAX_EXPONENT or not 0 <= cost <= _MAX_COST:
        raise ValueError("no cost of a note")
    return cost


def time(value: Any) -> datetime | None:
    """Parse a time with a time zone; None for None or an empty text.

    Raises:
        ValueError: It is no such time, or its year is out of range.
    """
    text = parse_text(value)
    if not text:
        return None
    timestamp = datetime.fromisoformat(text)
    if timestamp.tzinfo is None or not _FIRST_YEAR <= timestamp.year <= _LAST_YEAR:
        raise ValueError("no time of a note")
    return timestamp


def parse_digits(text: str | None) -> int | None:
    """Parse a number that is the whole value of an annotation or label; None for other values."""
    is_number = text is not None and text.isdecimal() and len(text) <= _MAX_DIGITS
    return int(text) if text is not None and is_number else None


def run_id(annotations: Mapping[str, str]) -> str | None:
    """Return the run-id of an object; None before its run starts, or when it is no valid run-id."""
    text = annotations.get(labels.RUN_ID)
    return text if text is not None and _RUN_ID.fullmatch(text) else None
