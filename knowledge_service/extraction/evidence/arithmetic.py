"""Whether a number follows from those of a record: by a conversion, or as a sum of two. Pure.

Both are exact. A sum adds amounts of one kind: of the same dimension, or before the same word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

_SECONDS: Final = {
    "ms": Decimal("0.001"), "s": Decimal(1), "min": Decimal(60), "h": Decimal(3_600),
    "d": Decimal(86_400), "w": Decimal(604_800),
}  # fmt: skip
_SIZES: Final = ("byte", "kb", "mb", "gb", "tb")
# A record may mean powers of 1,000 or of 1,024 by the same unit.
_SYSTEMS: Final = tuple(
    {**_SECONDS, **{unit: Decimal(base) ** power for power, unit in enumerate(_SIZES)}}
    for base in (1_000, 1_024)
)


_MOST_DIGITS: Final = 18  # within the precision of decimal numbers


@dataclass(frozen=True)
class Amount:
    """A number with its unit, and the word after it; both may be empty."""

    value: Decimal
    unit: str
    following: str


def amount(number: str, unit: str, following: str) -> Amount | None:
    """Return an amount; None if the number is no plain one, such as a time or a version."""
    is_plain = len(number) <= _MOST_DIGITS and number.replace(".", "", 1).isdecimal()
    return Amount(Decimal(number), unit, following) if is_plain else None


def follows(claimed: Amount, recorded: Sequence[Amount]) -> bool:
    """Return whether an amount is one of the recorded in another unit, or the sum of two."""
    if not claimed.unit:
        alike = [it.value for it in recorded if it.following == claimed.following != ""]
        return _is_sum(claimed.value, [value for value in alike if value])
    for system in _SYSTEMS:
        if claimed.unit not in system:
            continue
        is_time = claimed.unit in _SECONDS
        values = [
            it.value * system[it.unit]
            for it in recorded
            if it.unit in system and (it.unit in _SECONDS) == is_time
        ]
        value = claimed.value * system[claimed.unit]
        if value in values or _is_sum(value, [each for each in values if each]):
            return True
    return False


def _is_sum(total: Decimal, values: Iterable[Decimal]) -> bool:
    earlier: set[Decimal] = set()
    for value in values:
        if total - value in earlier:
            return True
        earlier.add(value)
    return False
