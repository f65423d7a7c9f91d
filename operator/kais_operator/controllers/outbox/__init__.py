"""Outboxes: calls to the knowledge service that outlive their deleted object."""
