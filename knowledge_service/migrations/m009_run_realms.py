"""Runs, their episodes, extractions and receipts by realm: a run id is unique in its realm.

Before, a run id was unique in the whole file, so each row belongs to exactly one realm: that of its
run. A receipt of a run that is not in the ledger has none. `fact_run` keeps only runs of the
ledger, because nothing else reads it.
"""

from __future__ import annotations

SQLITE = """
ALTER TABLE run RENAME TO run_by_id;
CREATE TABLE run(
  realm_no INTEGER NOT NULL, run_id TEXT NOT NULL, scope TEXT NOT NULL, namespace TEXT NOT NULL,
  blueprint TEXT, revision INTEGER, outcome TEXT, cost REAL, duration_us INTEGER,
  opened_at INTEGER NOT NULL, closed_at INTEGER, last_at INTEGER NOT NULL, credited INTEGER NOT NULL DEFAULT 0,
  body TEXT NOT NULL, PRIMARY KEY(realm_no, run_id)) WITHOUT ROWID, STRICT;
INSERT INTO run SELECT realm_no, run_id, scope, namespace, blueprint, revision, outcome, cost,
  duration_us, opened_at, closed_at, last_at, credited, body FROM run_by_id;

ALTER TABLE episode RENAME TO episode_by_id;
CREATE TABLE episode(
  realm_no INTEGER NOT NULL, run_id TEXT NOT NULL, seq INTEGER NOT NULL, attempt INTEGER NOT NULL,
  type TEXT NOT NULL, content TEXT NOT NULL, error_signature TEXT, refs TEXT NOT NULL, at INTEGER,
  recorded_at INTEGER NOT NULL, actor TEXT NOT NULL, content_hash BLOB NOT NULL,
  PRIMARY KEY(realm_no, run_id, seq)) WITHOUT ROWID, STRICT;
INSERT INTO episode SELECT r.realm_no, e.run_id, e.seq, e.attempt, e.type, e.content,
  e.error_signature, e.refs, e.at, e.recorded_at, e.actor, e.content_hash
  FROM episode_by_id e JOIN run_by_id r USING(run_id);
DROP TABLE episode_by_id;
CREATE UNIQUE INDEX episode_equal ON episode(realm_no, run_id, attempt, content_hash);
CREATE INDEX episode_signature ON episode(error_signature, realm_no, run_id)
  WHERE error_signature IS NOT NULL;

ALTER TABLE extraction RENAME TO extraction_by_id;
CREATE TABLE extraction(
  realm_no INTEGER NOT NULL, run_id TEXT NOT NULL, state TEXT NOT NULL, max_facts INTEGER NOT NULL,
  facts TEXT NOT NULL DEFAULT '[]', reason TEXT, attempts INTEGER NOT NULL DEFAULT 0,
  actor TEXT NOT NULL, accepted_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
  PRIMARY KEY(realm_no, run_id)) WITHOUT ROWID, STRICT;
INSERT INTO extraction SELECT r.realm_no, x.run_id, x.state, x.max_facts, x.facts, x.reason,
  x.attempts, x.actor, x.accepted_at, x.updated_at
  FROM extraction_by_id x JOIN run_by_id r USING(run_id);
DROP TABLE extraction_by_id;
CREATE INDEX extraction_open ON extraction(accepted_at) WHERE state IN ('pending', 'running');

ALTER TABLE fact_run RENAME TO fact_run_by_id;
CREATE TABLE fact_run(
  fact_no INTEGER NOT NULL, realm_no INTEGER NOT NULL, run_id TEXT NOT NULL,
  PRIMARY KEY(fact_no, realm_no, run_id)) WITHOUT ROWID, STRICT;
INSERT INTO fact_run SELECT f.fact_no, r.realm_no, f.run_id
  FROM fact_run_by_id f JOIN run_by_id r USING(run_id);
DROP TABLE fact_run_by_id;

ALTER TABLE receipt ADD COLUMN realm_no INTEGER;
UPDATE receipt SET realm_no = (SELECT r.realm_no FROM run_by_id r WHERE r.run_id = receipt.run_id)
  WHERE run_id IS NOT NULL;
DROP INDEX receipt_run;
CREATE INDEX receipt_run ON receipt(realm_no, run_id) WHERE run_id IS NOT NULL;

DROP TABLE run_by_id;
CREATE INDEX run_named ON run(run_id);
CREATE INDEX run_blueprint ON run(namespace, blueprint, opened_at);
CREATE INDEX run_scope ON run(scope, opened_at);
"""
