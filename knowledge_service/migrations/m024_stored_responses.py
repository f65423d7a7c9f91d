"""Removes from stored idempotent responses what later versions do not store in them.

The result of an erasure named what its caller may not see, and was filtered when it was sent. It
stays, because its key may belong to an alias that names another fact now. A recall could store its
response after the erasure of one of its facts, or the deletion of their scope. A response that is
no JSON stays as it is, and only a repeat of its request fails.
"""

from __future__ import annotations

SQLITE = """
UPDATE idempotency
  SET response = json_set(response, '$.derived', json('[]'), '$.links', NULL, '$.events', NULL)
  WHERE instr(response, '"backups":') > 0 AND CASE WHEN json_valid(response) THEN
    json_type(response, '$.backups') IS NOT NULL
    AND json_type(response, '$.erased_at') IS NOT NULL END;
DELETE FROM idempotency WHERE instr(response, '"content":') > 0 AND EXISTS (
  SELECT 1 FROM json_each(iif(json_valid(response), response, '{}'), '$.facts') f
  WHERE f.type = 'object' AND NOT EXISTS (
    SELECT 1 FROM fact JOIN scope USING(scope_no)
    WHERE fact.id = json_extract(f.value, '$.id') AND scope.retired_at IS NULL));
"""
