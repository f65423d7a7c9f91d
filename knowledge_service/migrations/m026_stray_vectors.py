"""Deletes vectors that belong to no fact.

Adoption did not move the vectors of the facts that it moved, so erasing one of these left a vector
of its text in the file. A fact that loses its vector here has one in its own scope, or gets one.
"""

from __future__ import annotations

SQLITE = """
DELETE FROM vector WHERE NOT EXISTS (
  SELECT 1 FROM fact WHERE fact.fact_no = vector.fact_no AND fact.scope_no = vector.scope_no);
"""
