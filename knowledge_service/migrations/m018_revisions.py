"""The first version of a revised fact: facts about one version are about all versions."""

from __future__ import annotations

SQLITE = """
ALTER TABLE fact ADD COLUMN root TEXT;
CREATE INDEX fact_root ON fact(root) WHERE root IS NOT NULL;
"""
