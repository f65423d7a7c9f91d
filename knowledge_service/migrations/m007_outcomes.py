"""What became of runs that a fact was in front of, apart from how often it was recalled.

A recall asks for the outcomes of each candidate, and most facts have none; but they have a row for
each place that recalled them, which all were read.
"""

from __future__ import annotations

SQLITE = """
CREATE INDEX usage_outcome ON usage(fact_no, observer_no, kind, count)
  WHERE kind IN ('succeeded', 'failed');
"""
