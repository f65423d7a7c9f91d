"""Indexes with the scope, so that rows invisible to a reader are never read.

A link and a promotion hold the scopes of their ends, which adoption moves with the facts. Uses,
names, recalls and runs are indexed by (searched value, visible scope), so that rows of other
scopes, however many, cost no time. Readers of everything keep the indexes without a scope.
"""

from __future__ import annotations

SQLITE = """
ALTER TABLE link ADD COLUMN from_scope INTEGER NOT NULL DEFAULT 0;
ALTER TABLE link ADD COLUMN to_scope INTEGER NOT NULL DEFAULT 0;
UPDATE link SET from_scope = (SELECT scope_no FROM fact WHERE fact_no = from_no),
  to_scope = (SELECT scope_no FROM fact WHERE fact_no = to_no);
DROP INDEX link_out;
DROP INDEX link_in;
CREATE INDEX link_out ON link(from_no, to_scope, to_no, type, closed_at);
CREATE INDEX link_in ON link(to_no, from_scope, from_no, type, closed_at);

ALTER TABLE promotion ADD COLUMN origin_scope INTEGER NOT NULL DEFAULT 0;
UPDATE promotion SET origin_scope = (SELECT scope_no FROM fact WHERE fact_no = origin_no);
DROP INDEX promotion_copy;
CREATE INDEX promotion_copy ON promotion(copy_no, origin_scope);

CREATE INDEX usage_seen ON usage(observer_no, fact_no, kind, count)
  WHERE kind IN ('succeeded', 'failed');

ALTER TABLE served RENAME TO served_by_time;
CREATE TABLE served(
  fact_no INTEGER NOT NULL, observer_no INTEGER NOT NULL, at INTEGER NOT NULL, receipt TEXT NOT NULL,
  principal TEXT NOT NULL, run_id TEXT, PRIMARY KEY(fact_no, observer_no, at, receipt)) WITHOUT ROWID, STRICT;
INSERT INTO served(fact_no, observer_no, at, receipt, principal, run_id)
  SELECT fact_no, observer_no, at, receipt, principal, run_id FROM served_by_time;
DROP TABLE served_by_time;

DROP INDEX run_blueprint;
DROP INDEX run_scope;
CREATE INDEX run_blueprint ON run(namespace, blueprint, scope);
CREATE INDEX run_scope ON run(scope, opened_at, namespace, blueprint);
CREATE INDEX run_newest ON run(opened_at, run_id, scope, namespace, blueprint);
"""
