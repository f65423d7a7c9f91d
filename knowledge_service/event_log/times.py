"""Stored times: whole microseconds since 1970 in UTC, so that they compare exactly."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import overload

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@overload
def to_us(moment: datetime) -> int: ...
@overload
def to_us(moment: datetime | None) -> int | None: ...
def to_us(moment: datetime | None) -> int | None:
    """Convert a time to microseconds since 1970; a time without a zone is taken as UTC."""
    if moment is None:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND


@overload
def from_us(value: int) -> datetime: ...
@overload
def from_us(value: int | None) -> datetime | None: ...
def from_us(value: int | None) -> datetime | None:
    """Convert microseconds since 1970 to a time."""
    return None if value is None else _EPOCH + timedelta(microseconds=value)
