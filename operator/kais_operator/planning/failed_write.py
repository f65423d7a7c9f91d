"""A write that the API server does not refuse, but fails to do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class FailedWrite:
    """The failures in a row of what a reconcile writes.

    Attributes:
        message: the API server's latest one.
        first_at: when the first write failed.
        last_at: when the latest write failed.
    """

    message: str
    first_at: datetime
    last_at: datetime
