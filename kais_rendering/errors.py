"""Errors of this package.

RenderingFailed         a worker passed a limit or died
RendererUnavailable     the process that has the workers does not answer, or has its own trouble
"""

from __future__ import annotations

from typing import Literal

Cap = Literal["time", "memory", "worker"]


class RenderingFailed(Exception):
    """A worker passed its time or memory limit, or died.

    Attributes:
        cap: "time" or "memory" when the request passed that limit; "worker" when the process died
            for a reason that it could not report.
        leaf: The leaf or parameter at work; empty when there was none yet.
    """

    def __init__(self, message: str, *, cap: Cap, leaf: str = "") -> None:
        super().__init__(message)
        self.cap = cap
        self.leaf = leaf


class RendererUnavailable(Exception):
    """The server of a `RenderClient` does not answer, or cannot have the request rendered.

    The request is not to blame.
    """
