"""What the verbs do to facts, told without a database: each store gives them a desk to work at.

A verb reads the state through the desk, decides, and records events; nothing else changes anything.
So every store behaves alike, and a replay of its log is all that a rebuild needs.
"""
