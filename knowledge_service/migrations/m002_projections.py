"""The data that lets a projection be dropped and replayed from the log to the same bytes.

A fact's row is its newest version; `fact_past` holds earlier ones, each with the span in which it
was known. `fact_event` maps a fact to the events about it, for history, undo and erasure; `op` is
the first event of an operation. `fact_run` lists the closed runs that recalled a fact; like usage
it is derived from receipts and is not a projection of the log. Events written under m001 are not
enough to replay, so the store copies the tables of that time into the log in the same transaction
and replays from there (`meta.replay_from`).
"""

from __future__ import annotations

SQLITE = """
ALTER TABLE fact ADD COLUMN changed_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE fact ADD COLUMN changed_seq INTEGER NOT NULL DEFAULT 0;
CREATE TABLE fact_past(
  fact_no INTEGER NOT NULL, version INTEGER NOT NULL, since INTEGER NOT NULL, until INTEGER NOT NULL,
  seq INTEGER NOT NULL, until_seq INTEGER NOT NULL, tags TEXT NOT NULL, confidence REAL NOT NULL, lifecycle TEXT NOT NULL,
  review TEXT NOT NULL, flags TEXT NOT NULL, expires_at INTEGER, valid_from INTEGER, valid_until INTEGER,
  closed_at INTEGER, closed_reason TEXT, closed_by TEXT, PRIMARY KEY(fact_no, version)) WITHOUT ROWID, STRICT;
CREATE TABLE fact_event(fact_no INTEGER NOT NULL, seq INTEGER NOT NULL, op INTEGER NOT NULL,
  undone INTEGER NOT NULL DEFAULT 0, PRIMARY KEY(fact_no, seq)) WITHOUT ROWID, STRICT;
CREATE INDEX fact_queue ON fact(scope_no, id) WHERE review = 'draft' OR flags <> '[]';
CREATE INDEX fact_event_op ON fact_event(op);
CREATE TABLE fact_run(fact_no INTEGER NOT NULL, run_id TEXT NOT NULL,
  PRIMARY KEY(fact_no, run_id)) WITHOUT ROWID, STRICT;
CREATE INDEX promotion_copy ON promotion(copy_no);
CREATE INDEX event_erased ON event(seq) WHERE type = 'fact.erased';
"""
