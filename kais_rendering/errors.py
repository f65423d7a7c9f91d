"""Errors of this package.

RenderingFailed         a worker exceeded a limit or died
RendererUnavailable     the render server does not answer, or has a problem that no request caused
"""

from __future__ import annotations

from typing import Literal

Cap = Literal["time", "memory", "worker"]


class RenderingFailed(Exception):
    """A worker exceeded its time or memory limit, or died.

    Attributes:
        cap: "time" or "memory" if the request exceeded that limit; "worker" if the process died
            for
            a reason that it could not report.
        leaf: The leaf or parameter that the worker processed; empty if it had not reached one.
    """

    def __init__(self, message: str, *, cap: Cap, leaf: str = "") -> None:
        super().__init__(message)
        self.cap = cap
        self.leaf = leaf


class RendererUnavailable(Exception):
    """The server of a `RenderClient` does not answer, or cannot render.

    The request is not the cause.
    """
