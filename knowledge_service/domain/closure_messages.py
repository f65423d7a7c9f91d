"""Describes how a closed fact ended, for messages. Pure."""

from __future__ import annotations

from knowledge_client.models import Fact


def describe_closure(fact: Fact, adverb: str = "") -> str:
    """Return `retracted: it was noon`, or `superseded by ID` when the reason repeats the state."""
    state, reason = f"{fact.lifecycle}{adverb and ' '}{adverb}", fact.closed_reason or ""
    prefix = f"{fact.lifecycle} "
    return (
        f"{state} {reason.removeprefix(prefix)}"
        if reason.startswith(prefix)
        else f"{state}: {reason}"
    )
