"""The index in packed segments instead of blocks and a tail.

`key` is scope, bucket and first document in one number, so that the rows that a query reads are
adjacent and a row has no other key. The store rebuilds the table when it opens a file whose index
was built by another version (`meta.index`). `scope.docs` and `scope.total_length` are no longer
used.
"""

from __future__ import annotations

SQLITE = """
DROP TABLE block;
DROP TABLE tail;
CREATE TABLE posting(key INTEGER PRIMARY KEY, size INTEGER NOT NULL, data BLOB NOT NULL) STRICT;
"""
