"""Writes: a Plan becomes calls on the ports, idempotently."""
