"""Erasures that read what belongs to one fact alone.

`fact_tag` refers to `fact` no longer: to delete a fact, SQLite looked through all tags of all facts
for one that refers to it. Answers that are kept for a repeat and hold a fact are found without the
others.
"""

from __future__ import annotations

SQLITE = """
CREATE TABLE fact_tag_new(scope_no INTEGER NOT NULL, tag TEXT NOT NULL, fact_no INTEGER NOT NULL,
  PRIMARY KEY(scope_no, tag, fact_no)) WITHOUT ROWID, STRICT;
INSERT INTO fact_tag_new SELECT scope_no, tag, fact_no FROM fact_tag ORDER BY scope_no, tag, fact_no;
DROP TABLE fact_tag;
ALTER TABLE fact_tag_new RENAME TO fact_tag;
CREATE INDEX idempotency_content ON idempotency(at) WHERE instr(response, '"content":') > 0;
"""
