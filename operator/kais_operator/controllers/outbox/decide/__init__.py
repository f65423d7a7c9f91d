"""Decisions: `(observed, now) -> Plan`. Pure."""
