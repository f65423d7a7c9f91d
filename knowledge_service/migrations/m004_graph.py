"""Links by either end, recalls by fact, and a secret that encrypts stream positions.

`served` maps a fact to the receipts that contain it, with the columns that queries need, so that
tens of thousands of recalls are one range of one table. Existing receipts are added here.
"""

from __future__ import annotations

SQLITE = """
CREATE INDEX link_into ON link(to_no, from_no, type) WHERE closed_at IS NULL;
CREATE INDEX alias_name ON alias(namespace, value);
CREATE INDEX receipt_at ON receipt(at);
CREATE TABLE served(
  fact_no INTEGER NOT NULL, at INTEGER NOT NULL, receipt TEXT NOT NULL, principal TEXT NOT NULL,
  observer_no INTEGER NOT NULL, run_id TEXT, PRIMARY KEY(fact_no, at, receipt)) WITHOUT ROWID, STRICT;
INSERT OR IGNORE INTO served(fact_no, at, receipt, principal, observer_no, run_id)
  SELECT f.fact_no, r.at, r.id, r.principal, r.observer_no, r.run_id
  FROM receipt r, json_each(r.body, '$.facts') j JOIN fact f ON f.id = j.value;
INSERT OR IGNORE INTO meta(key, value) VALUES('seal_key', lower(hex(randomblob(32))));
"""
