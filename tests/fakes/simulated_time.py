"""An event loop whose timers pass at once, in their order: no test on it depends on a busy machine.

Mark a test, or a module of `tests/unit/operator`, with `simulated_time`. What waits for a thread, a
process or a connection needs the system's clock.
"""

from __future__ import annotations

import asyncio
import selectors


class _SkippingSelector(selectors.DefaultSelector):
    """Lets time pass at once when nothing is left to do but to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout:
            self.now_s += timeout
        return ready


class SimulatedTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock shows how long its timers would have waited."""

    def __init__(self) -> None:
        self._skipping = _SkippingSelector()
        super().__init__(self._skipping)

    def time(self) -> float:
        """Return the simulated seconds since the loop began."""
        return self._skipping.now_s
