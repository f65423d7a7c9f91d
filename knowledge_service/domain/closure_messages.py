"""How a fact that is not live any more ended, in words. Pure."""

from __future__ import annotations

from knowledge_client.models import Fact


def of(fact: Fact, adverb: str = "") -> str:
    """Say `retracted: it was noon`, or `superseded by ID` where the reason begins so itself."""
    word, reason = f"{fact.lifecycle}{adverb and ' '}{adverb}", fact.closed_reason or ""
    own = f"{fact.lifecycle} "
    return f"{word} {reason.removeprefix(own)}" if reason.startswith(own) else f"{word}: {reason}"
