"""The initial model: facts, runs, scopes, principals, the event log, scope-clustered postings.

Times are microseconds since 1970 in UTC. JSON columns are canonical text. The tables of later
features exist already: aliases, sequences, links, reviews and promotions, although little writes
them yet. Tables under "projections" can be dropped and rebuilt from the event log.
"""

from __future__ import annotations

SQLITE = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID, STRICT;

-- The event log: the source of truth. prev_hash chains the rows; payload_hash outlives an erased payload.
CREATE TABLE event(
  seq INTEGER PRIMARY KEY, scope_no INTEGER, type TEXT NOT NULL, actor TEXT NOT NULL, at INTEGER NOT NULL,
  payload_hash BLOB NOT NULL, prev_hash BLOB NOT NULL) STRICT;
CREATE TABLE payload(seq INTEGER PRIMARY KEY, salt BLOB NOT NULL, bytes BLOB NOT NULL) STRICT;

-- A retired scope keeps its rows and its number; its path is free for a successor that starts empty.
CREATE TABLE scope(
  scope_no INTEGER PRIMARY KEY, path TEXT NOT NULL, realm_no INTEGER NOT NULL, realm_uid TEXT, config TEXT,
  created_at INTEGER NOT NULL, retired_at INTEGER, last_write_at INTEGER,
  live_facts INTEGER NOT NULL DEFAULT 0, docs INTEGER NOT NULL DEFAULT 0,
  total_length INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE UNIQUE INDEX scope_path ON scope(path) WHERE retired_at IS NULL;
CREATE INDEX scope_retired ON scope(path) WHERE retired_at IS NOT NULL;

CREATE TABLE principal(
  username TEXT PRIMARY KEY, uid TEXT, name TEXT NOT NULL, type TEXT NOT NULL, home TEXT NOT NULL,
  grants TEXT NOT NULL, realm_uid TEXT, quota TEXT, registered_at INTEGER NOT NULL) WITHOUT ROWID, STRICT;

CREATE TABLE fact(
  fact_no INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, scope_no INTEGER NOT NULL REFERENCES scope,
  version INTEGER NOT NULL DEFAULT 1, kind TEXT NOT NULL, title TEXT, content TEXT NOT NULL,
  data TEXT, schema TEXT, about TEXT, position INTEGER, subject TEXT, predicate TEXT, key_hash BLOB,
  tags TEXT NOT NULL, confidence REAL NOT NULL, source TEXT NOT NULL, source_type TEXT NOT NULL,
  lifecycle TEXT NOT NULL DEFAULT 'live', review TEXT NOT NULL DEFAULT 'none', flags TEXT NOT NULL DEFAULT '[]',
  expires_at INTEGER, valid_from INTEGER, valid_until INTEGER,
  recorded_at INTEGER NOT NULL, closed_at INTEGER, closed_reason TEXT, closed_by TEXT,
  content_hash BLOB NOT NULL) STRICT;
CREATE INDEX fact_equal ON fact(scope_no, content_hash);
CREATE INDEX fact_key ON fact(scope_no, key_hash) WHERE key_hash IS NOT NULL;
CREATE INDEX fact_newest ON fact(scope_no, id);
CREATE INDEX fact_best ON fact(scope_no, confidence, id) WHERE lifecycle = 'live';
CREATE INDEX fact_about ON fact(about, position) WHERE about IS NOT NULL;
CREATE TABLE fact_tag(scope_no INTEGER NOT NULL, tag TEXT NOT NULL, fact_no INTEGER NOT NULL REFERENCES fact,
  PRIMARY KEY(scope_no, tag, fact_no)) WITHOUT ROWID, STRICT;
CREATE TABLE alias(scope_no INTEGER NOT NULL, namespace TEXT NOT NULL, value TEXT NOT NULL,
  fact_no INTEGER NOT NULL REFERENCES fact, PRIMARY KEY(scope_no, namespace, value)) WITHOUT ROWID, STRICT;
CREATE INDEX alias_fact ON alias(fact_no);
CREATE TABLE sequence(scope_no INTEGER NOT NULL, namespace TEXT NOT NULL, prefix TEXT NOT NULL,
  last INTEGER NOT NULL, PRIMARY KEY(scope_no, namespace, prefix)) WITHOUT ROWID, STRICT;
CREATE TABLE link(
  id TEXT PRIMARY KEY, from_no INTEGER NOT NULL REFERENCES fact, to_no INTEGER NOT NULL REFERENCES fact,
  type TEXT NOT NULL, weight REAL, data TEXT, actor TEXT NOT NULL,
  valid_from INTEGER, valid_until INTEGER, recorded_at INTEGER NOT NULL, closed_at INTEGER) WITHOUT ROWID, STRICT;
CREATE UNIQUE INDEX link_from ON link(from_no, to_no, type) WHERE closed_at IS NULL;
CREATE INDEX link_to ON link(to_no, type);
CREATE TABLE confirmation(
  fact_no INTEGER NOT NULL REFERENCES fact, at INTEGER NOT NULL, seq INTEGER NOT NULL, session TEXT,
  actor TEXT NOT NULL, PRIMARY KEY(fact_no, at, seq)) WITHOUT ROWID, STRICT;
CREATE TABLE review(
  seq INTEGER PRIMARY KEY, fact_no INTEGER NOT NULL REFERENCES fact, decision TEXT NOT NULL, actor TEXT NOT NULL,
  actor_type TEXT NOT NULL, reason TEXT, at INTEGER NOT NULL, edits TEXT) STRICT;
CREATE INDEX review_fact ON review(fact_no);
CREATE TABLE promotion(
  id TEXT PRIMARY KEY, origin_no INTEGER NOT NULL REFERENCES fact, copy_no INTEGER NOT NULL REFERENCES fact,
  rule TEXT NOT NULL, evidence TEXT NOT NULL, actor TEXT NOT NULL, at INTEGER NOT NULL,
  undone_at INTEGER) WITHOUT ROWID, STRICT;
CREATE INDEX promotion_origin ON promotion(origin_no);

-- Usage by observer scope, per fact, and summed per scope (kind `recall`: recalls that returned one of its facts).
CREATE TABLE usage(
  fact_no INTEGER NOT NULL REFERENCES fact, observer_no INTEGER NOT NULL, kind TEXT NOT NULL,
  count INTEGER NOT NULL, last_at INTEGER NOT NULL, PRIMARY KEY(fact_no, observer_no, kind)) WITHOUT ROWID, STRICT;
CREATE TABLE scope_usage(
  scope_no INTEGER NOT NULL, observer_no INTEGER NOT NULL, kind TEXT NOT NULL, count INTEGER NOT NULL,
  last_at INTEGER NOT NULL, PRIMARY KEY(scope_no, observer_no, kind)) WITHOUT ROWID, STRICT;
CREATE TABLE receipt(
  id TEXT PRIMARY KEY, principal TEXT NOT NULL, observer_no INTEGER NOT NULL, run_id TEXT, attempt INTEGER,
  at INTEGER NOT NULL, query_hash TEXT NOT NULL, body TEXT NOT NULL) WITHOUT ROWID, STRICT;
CREATE INDEX receipt_run ON receipt(run_id) WHERE run_id IS NOT NULL;

-- The ledger. `body` is the whole run; the columns beside it are what is searched and counted.
CREATE TABLE run(
  run_id TEXT PRIMARY KEY, scope TEXT NOT NULL, realm_no INTEGER NOT NULL, namespace TEXT NOT NULL,
  blueprint TEXT, revision INTEGER, outcome TEXT, cost REAL, duration_us INTEGER,
  opened_at INTEGER NOT NULL, closed_at INTEGER, last_at INTEGER NOT NULL, credited INTEGER NOT NULL DEFAULT 0,
  body TEXT NOT NULL) WITHOUT ROWID, STRICT;
CREATE INDEX run_blueprint ON run(namespace, blueprint, opened_at);
CREATE INDEX run_scope ON run(scope, opened_at);
CREATE TABLE episode(
  run_id TEXT NOT NULL, seq INTEGER NOT NULL, attempt INTEGER NOT NULL, type TEXT NOT NULL, content TEXT NOT NULL,
  error_signature TEXT, refs TEXT NOT NULL, at INTEGER, recorded_at INTEGER NOT NULL, actor TEXT NOT NULL,
  content_hash BLOB NOT NULL, PRIMARY KEY(run_id, seq)) WITHOUT ROWID, STRICT;
CREATE UNIQUE INDEX episode_equal ON episode(run_id, attempt, content_hash);
CREATE INDEX episode_signature ON episode(error_signature, run_id) WHERE error_signature IS NOT NULL;
CREATE TABLE extraction(
  run_id TEXT PRIMARY KEY, state TEXT NOT NULL, max_facts INTEGER NOT NULL, facts TEXT NOT NULL DEFAULT '[]',
  reason TEXT, attempts INTEGER NOT NULL DEFAULT 0, actor TEXT NOT NULL,
  accepted_at INTEGER NOT NULL, updated_at INTEGER NOT NULL) WITHOUT ROWID, STRICT;
CREATE INDEX extraction_open ON extraction(accepted_at) WHERE state IN ('pending', 'running');

CREATE TABLE idempotency(
  principal TEXT NOT NULL, key TEXT NOT NULL, body_hash TEXT NOT NULL, response TEXT NOT NULL,
  at INTEGER NOT NULL, PRIMARY KEY(principal, key)) WITHOUT ROWID, STRICT;
CREATE INDEX idempotency_at ON idempotency(at);

-- Projections of the index: full blocks of postings, and the tail that facts are written to.
CREATE TABLE block(
  scope_no INTEGER NOT NULL, term TEXT NOT NULL, block_no INTEGER NOT NULL, n INTEGER NOT NULL,
  data BLOB NOT NULL, PRIMARY KEY(scope_no, term, block_no)) WITHOUT ROWID, STRICT;
CREATE TABLE tail(
  scope_no INTEGER NOT NULL, term TEXT NOT NULL, fact_no INTEGER NOT NULL, tf INTEGER NOT NULL,
  length INTEGER NOT NULL, PRIMARY KEY(scope_no, term, fact_no)) WITHOUT ROWID, STRICT;
"""
