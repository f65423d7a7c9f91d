"""Permanently deleted scopes, with the actor, until their facts are erased and afterwards."""

from __future__ import annotations

SQLITE = """
ALTER TABLE scope ADD COLUMN erased_by TEXT;
CREATE INDEX scope_erased ON scope(scope_no) WHERE erased_by IS NOT NULL;
"""
