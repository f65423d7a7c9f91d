"""The trace of a run to which the requests of a block belong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_traceparent: ContextVar[str | None] = ContextVar("traceparent", default=None)


@contextmanager
def of_run(traceparent: str | None) -> Iterator[None]:
    """Send the requests of the block as part of the trace of a run; None for no trace."""
    reset = _traceparent.set(traceparent)
    try:
        yield
    finally:
        _traceparent.reset(reset)


def current() -> str | None:
    """Return the `traceparent` for a request; None outside of a trace."""
    return _traceparent.get()
