"""Blueprints: manifests, revisions, parameter values, rendering, comparison, statistics."""
