"""Waits for a fact to become true, and says what was last seen when it does not."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    read: Callable[[], T], holds: Callable[[T], bool], *, description: str, timeout_s: float = 90
) -> T:
    """Look every half second until it holds; fail with the last thing seen."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = read()
        if holds(value):
            return value
        if time.monotonic() > deadline:
            raise AssertionError(
                f"no {description} after {timeout_s:.0f} s; last seen: {value!r}"[:4000]
            )
        time.sleep(0.5)
