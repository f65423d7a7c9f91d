"""Ranking features of conversations: speakers, turns and sessions."""
