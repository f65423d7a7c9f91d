"""Decisions about BlueprintInstances."""
