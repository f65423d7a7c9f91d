"""Erasures that read only the rows of one fact.

`fact_tag` no longer references `fact`: to delete a fact, SQLite searched all tags of all facts for
one that references it. Idempotent answers that contain a fact are found without reading the others.
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
