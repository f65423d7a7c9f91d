"""Answers kept for a repeat that hold names of facts are found without the others."""

from __future__ import annotations

SQLITE = """
CREATE INDEX idempotency_named ON idempotency(at) WHERE instr(response, '"namespace":') > 0;
"""
