"""Counts the steps of a computation: the same on a busy machine as on an idle one.

Tests compare the steps for several sizes instead of measuring seconds. A step is a line that Python
executes; each round of a comprehension counts too, a loop inside a C function does not.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def count_steps(call: Callable[[], object]) -> int:
    """Run a call, and return the number of its steps in this thread.

    No garbage collection starts during the call: its callbacks, such as the one that Hypothesis
    registers, are Python too and would count.
    """
    steps = 0

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        del frame, event, argument
        nonlocal steps
        steps += 1
        return count

    outer = sys.gettrace()
    is_collecting = gc.isenabled()
    gc.disable()
    sys.settrace(count)
    try:
        call()
    finally:
        sys.settrace(outer)
        if is_collecting:
            gc.enable()
    return steps


def assert_linear(steps_of: Callable[[int], int], size: int) -> None:
    """Check that from `size` to 2 and to 3 times as much, the same number of steps is added.

    Anything quadratic adds more the second time. 5 % are for what is done once in a while, such as
    filling a cache.
    """
    steps_of(size)  # what is computed once and cached
    first, second, third = (steps_of(size * factor) for factor in (1, 2, 3))
    assert third - second <= 1.05 * (second - first), (first, second, third)
