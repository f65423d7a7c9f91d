"""The log and the receipts by scope, so that rows of other scopes cost a reader no time.

`event_scope` holds (scope, sequence number) of each event, `receipt_observer` (observer, time, id)
of each receipt. Links from before the log sufficed for a replay get the scope of their other end.
"""

from __future__ import annotations

SQLITE = """
CREATE INDEX event_scope ON event(scope_no);
CREATE INDEX receipt_observer ON receipt(observer_no, at);
"""
