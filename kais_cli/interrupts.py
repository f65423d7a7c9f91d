"""Remember Ctrl-C, because a library may raise an exception of its own for KeyboardInterrupt.

pydantic does so while it builds the validators of a model.
"""

from __future__ import annotations

import signal
from types import FrameType


class Interrupts:
    """Records that the user has pressed Ctrl-C."""

    def __init__(self) -> None:
        self._has_happened = False

    def record(self) -> None:
        """Record from now on; without effect in a process that ignores the signal."""
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._handle)

    def has_happened(self) -> bool:
        """Whether the user has pressed Ctrl-C."""
        return self._has_happened

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._has_happened = True
        signal.default_int_handler(number, frame)
