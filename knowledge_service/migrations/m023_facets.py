"""Values in the data of facts, for lists that filter by them.

`facet` is a hash of schema, name and value: the text of data is in its fact alone.
"""

from __future__ import annotations

SQLITE = """
CREATE TABLE fact_facet(scope_no INTEGER NOT NULL, facet INTEGER NOT NULL, fact_no INTEGER NOT NULL,
  PRIMARY KEY(scope_no, facet, fact_no)) STRICT, WITHOUT ROWID;
"""
