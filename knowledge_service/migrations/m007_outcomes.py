"""The outcomes of runs that recalled a fact, separate from the recall counts.

A recall reads the outcomes of each candidate. Most facts have none, but have a row for each scope
that recalled them, and all of these were read.
"""

from __future__ import annotations

SQLITE = """
CREATE INDEX usage_outcome ON usage(fact_no, observer_no, kind, count)
  WHERE kind IN ('succeeded', 'failed');
"""
