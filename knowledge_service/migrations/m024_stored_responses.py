"""Removes from stored idempotent responses what later versions do not store in them.

The result of an erasure named what its caller may not see, and was filtered when it was sent. It
stays, because its key may belong to an alias that names another fact now. A recall could store its
response after the erasure of one of its facts.
"""

from __future__ import annotations

SQLITE = """
UPDATE idempotency
  SET response = json_set(response, '$.derived', json('[]'), '$.links', NULL, '$.events', NULL)
  WHERE instr(response, '"backups":') > 0
    AND json_type(response, '$.backups') IS NOT NULL
    AND json_type(response, '$.erased_at') IS NOT NULL;
DELETE FROM idempotency WHERE instr(response, '"content":') > 0 AND EXISTS (
  SELECT 1 FROM json_each(idempotency.response, '$.facts') f
  WHERE f.type = 'object' AND NOT EXISTS (
    SELECT 1 FROM fact WHERE id = json_extract(idempotency.response, f.fullkey || '.id')));
"""
