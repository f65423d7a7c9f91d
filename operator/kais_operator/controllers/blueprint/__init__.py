"""Blueprints: their revisions, and which of them is served."""
