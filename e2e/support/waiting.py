"""Waits for a fact to become true, and says what was last seen when it does not."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(
    look: Callable[[], T], holds: Callable[[T], bool], *, what: str, timeout_s: float = 90
) -> T:
    """Look every half second until it holds; fail with the last thing seen."""
    deadline = time.monotonic() + timeout_s
    while True:
        seen = look()
        if holds(seen):
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"no {what} after {timeout_s:.0f} s; last seen: {seen!r}"[:4000])
        time.sleep(0.5)
