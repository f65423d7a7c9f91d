"""Decisions: `(resource, observed, now) -> Plan`, one room per kind. Pure.

What every kind uses is beside the rooms: the Plan, children, words, annotations, the outbox.
"""
