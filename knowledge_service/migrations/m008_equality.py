"""Packed blocks of hashes instead of an index of equal facts.

Hashes have no order, so each fact of a batch of 200 wrote to a page of its own in that index: half
of all writes with 1,000,000 facts. `key` is scope and block in one number; a block holds the
prefixes of up to 64 hashes with the facts' numbers. The store fills the table from the facts in the
same transaction.
"""

from __future__ import annotations

SQLITE = """
DROP INDEX fact_equal;
CREATE TABLE equal(key INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;
"""
