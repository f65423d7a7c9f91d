"""Decisions: `(resource, observed, now) -> Plan`, one module per kind. Pure."""
