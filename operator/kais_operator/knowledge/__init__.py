"""The knowledge service: its client, and what the operator synchronised with it."""
