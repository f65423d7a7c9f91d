"""The operations on facts, without a database: each store supplies a unit of work.

An operation reads the state through the unit of work, decides, and records events; nothing else
changes state. So every store behaves alike, and a rebuild needs only a replay of the log.
"""
