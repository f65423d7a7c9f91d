"""The first version of a revised fact, so that what is about it is about its successors, too."""

from __future__ import annotations

SQLITE = """
ALTER TABLE fact ADD COLUMN root TEXT;
CREATE INDEX fact_root ON fact(root) WHERE root IS NOT NULL;
"""
