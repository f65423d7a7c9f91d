"""Vectors of facts, if embeddings are configured. They can be computed again from the facts.

The table is not a projection of the log, and a rebuild does not compare it. Erasure deletes rows.
"""

from __future__ import annotations

SQLITE = """
CREATE TABLE vector(
  scope_no INTEGER NOT NULL, fact_no INTEGER NOT NULL, model TEXT NOT NULL, data BLOB NOT NULL,
  PRIMARY KEY(scope_no, fact_no)) WITHOUT ROWID, STRICT;
"""
