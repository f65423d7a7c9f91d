"""The index in packed runs instead of blocks and tail.

`key` is scope, bucket and first document in one number, so that what a question reads lies together
and a row has no other key. The store fills the table anew when it opens a file whose index was made
by another version (`meta.index`). `scope.docs` and `scope.total_length` are not used any more.
"""

from __future__ import annotations

SQLITE = """
DROP TABLE block;
DROP TABLE tail;
CREATE TABLE posting(key INTEGER PRIMARY KEY, size INTEGER NOT NULL, data BLOB NOT NULL) STRICT;
"""
