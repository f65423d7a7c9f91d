"""Decisions about Missions: attempts, checks, reviews, outcomes, and what the store is told."""
