"""Decisions about Formations."""
