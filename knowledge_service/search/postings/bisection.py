"""Bisection over rows that hold ascending numbers with gaps."""

from __future__ import annotations

from collections.abc import Callable


def last_at_most(count: int, first_of: Callable[[int], int | None], number: int) -> int | None:
    """Return the index of the last of `count` rows whose first number is at most `number`, or None.

    `first_of` reads the first number of a row; it returns None for a row without numbers.
    """
    low, high, candidate = 0, count, None
    while low < high:
        middle = at = (low + high) // 2
        first = first_of(at)
        while first is None and at > low:
            at -= 1
            first = first_of(at)
        if first is None:
            low = middle + 1
        elif first <= number:
            low, candidate = middle + 1, at
        else:
            high = at
    return candidate
