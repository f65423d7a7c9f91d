"""Extractions by a model: which model, when it is called again, and what its calls cost.

Costs are in billionths of a US dollar, so that sums are exact. An open call counts with its reservation.
"""

from __future__ import annotations

SQLITE = """
ALTER TABLE extraction ADD COLUMN model TEXT;
ALTER TABLE extraction ADD COLUMN retry_at INTEGER;
ALTER TABLE extraction ADD COLUMN called_at INTEGER;
ALTER TABLE extraction ADD COLUMN calls INTEGER NOT NULL DEFAULT 0;
ALTER TABLE extraction ADD COLUMN input_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE extraction ADD COLUMN output_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE extraction ADD COLUMN cost_nano INTEGER NOT NULL DEFAULT 0;
CREATE INDEX extraction_called ON extraction(realm_no, called_at) WHERE called_at IS NOT NULL;
"""
