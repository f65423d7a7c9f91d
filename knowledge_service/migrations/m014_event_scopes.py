"""A fact's history by visible scope, so that other scopes' links and promotions cost no time.

`fact_event.other_scope` is the scope of the fact at the other end of a link or a promotion, which
adoption moves with the facts. It is 0 for all other events, and for events from before the log
sufficed for a replay.
"""

from __future__ import annotations

SQLITE = """
CREATE TABLE fact_event_by_scope(fact_no INTEGER NOT NULL, seq INTEGER NOT NULL, op INTEGER NOT NULL,
  undone INTEGER NOT NULL DEFAULT 0, other_scope INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY(fact_no, other_scope, seq)) WITHOUT ROWID, STRICT;
INSERT INTO fact_event_by_scope(fact_no, seq, op, undone)
  SELECT fact_no, seq, op, undone FROM fact_event ORDER BY fact_no, seq;
DROP TABLE fact_event;
ALTER TABLE fact_event_by_scope RENAME TO fact_event;
CREATE INDEX fact_event_op ON fact_event(op);
"""
