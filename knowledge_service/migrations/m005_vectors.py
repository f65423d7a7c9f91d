"""Vectors of facts, for who configures embeddings: made from facts by a model, and made again.

No projection of the log: nothing of it is compared by a rebuild. Erasure deletes them.
"""

from __future__ import annotations

SQLITE = """
CREATE TABLE vector(
  scope_no INTEGER NOT NULL, fact_no INTEGER NOT NULL, model TEXT NOT NULL, data BLOB NOT NULL,
  PRIMARY KEY(scope_no, fact_no)) WITHOUT ROWID, STRICT;
"""
