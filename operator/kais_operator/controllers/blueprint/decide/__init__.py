"""Decisions about Blueprints and their revisions."""
