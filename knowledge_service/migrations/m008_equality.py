"""Equal facts found by packed blocks of hashes instead of an index.

Hashes have no order: of a batch of 200 facts each wrote to a page of its own in that index, half
of all that was written with 1,000,000 facts. `key` is scope and block in one number; a block holds
the beginnings of up to 64 hashes with the facts' numbers. The store fills the table from the facts
in the same transaction.
"""

from __future__ import annotations

SQLITE = """
DROP INDEX fact_equal;
CREATE TABLE equal(key INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;
"""
