"""The operations on facts, without a database: each store gives them a unit of work.

An operation reads the state through it, decides, and records events; nothing else changes anything.
So every store behaves alike, and a replay of its log is all that a rebuild needs.
"""
