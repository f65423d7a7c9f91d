"""Decisions about one use of a Blueprint."""
