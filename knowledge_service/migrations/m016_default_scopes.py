"""The scope of facts that name none, for each registered caller."""

from __future__ import annotations

SQLITE = """
ALTER TABLE principal ADD COLUMN default_scope TEXT;
"""
