"""`usage.<kind>`: what callers say they did with facts.

The log has who said it and when, for the audit and the stream. The counts are kept beside the log,
as receipts are, so that a replay adds nothing to them.
"""

from __future__ import annotations

from typing import get_args

import apsw

from knowledge_client.models import UsageKind
from knowledge_service.event_log.events import Event


def type_of(kind: UsageKind) -> str:
    """Return the type of the event that tells of uses of a kind."""
    return f"usage.{kind}"


def _leave(_: apsw.Connection, __: Event) -> None:
    """Change no table."""


EVENTS = {type_of(kind): _leave for kind in get_args(UsageKind)}
