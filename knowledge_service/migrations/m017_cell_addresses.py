"""The cell of each registered account, and the cells that it may speak to, as JSON."""

from __future__ import annotations

SQLITE = """
ALTER TABLE principal ADD COLUMN address TEXT;
"""
