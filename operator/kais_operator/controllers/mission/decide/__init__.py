"""Decisions about Missions: attempts, checks, reviews, outcomes, and the record of the run."""
