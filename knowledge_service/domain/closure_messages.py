"""How a fact that is not live any more ended, in words. Pure."""

from __future__ import annotations

from knowledge_client.models import Fact


def describe_closure(fact: Fact, adverb: str = "") -> str:
    """Say `retracted: it was noon`, or `superseded by ID` where the reason begins so itself."""
    state, reason = f"{fact.lifecycle}{adverb and ' '}{adverb}", fact.closed_reason or ""
    prefix = f"{fact.lifecycle} "
    return (
        f"{state} {reason.removeprefix(prefix)}"
        if reason.startswith(prefix)
        else f"{state}: {reason}"
    )
