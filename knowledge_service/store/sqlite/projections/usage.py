"""`usage.<kind>`: uses of facts that callers report.

The log records the reporter and the time, for the audit log and the event stream. The counts are
kept outside the log, like receipts, so that a replay adds nothing to them.
"""

from __future__ import annotations

from typing import get_args

import apsw

from knowledge_client.models import UsageKind
from knowledge_service.event_log.events import Event


def type_of(kind: UsageKind) -> str:
    """Return the event type for uses of a kind."""
    return f"usage.{kind}"


def _leave(_: apsw.Connection, __: Event) -> None:
    """Change no table."""


EVENTS = {type_of(kind): _leave for kind in get_args(UsageKind)}
