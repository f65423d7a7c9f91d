"""Open missions without knowledge, which every read of a cell looks up."""

from __future__ import annotations

SQLITE = """
CREATE INDEX run_withheld ON run(realm_no, run_id)
  WHERE outcome IS NULL AND json_extract(body, '$.arm') <> 'on'
  AND json_extract(body, '$.kind') = 'mission';
"""
