"""An index of idempotent answers that contain names of facts, so that the others are not read."""

from __future__ import annotations

SQLITE = """
CREATE INDEX idempotency_named ON idempotency(at) WHERE instr(response, '"namespace":') > 0;
"""
