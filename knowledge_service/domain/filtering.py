"""What a fact must be like to be returned by a recall. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kais import facts
from knowledge_client.models import Fact

_SERVED = ("none", "approved")


@dataclass(frozen=True)
class Filters:
    """Conditions that all must hold; empty tuples and None let everything pass.

    Tags compare case-folded and all are needed. `known_at` asks for what was live then.
    """

    kinds: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    min_confidence: float = 0.0
    valid_at: datetime | None = None
    known_at: datetime | None = None


def passes(fact: Fact, filters: Filters) -> bool:
    """Tell whether the fact is served and meets the conditions."""
    if fact.review not in _SERVED or fact.confidence < filters.min_confidence:
        return False
    if filters.kinds and fact.kind not in filters.kinds:
        return False
    if filters.tags and not _tagged(fact, filters.tags):
        return False
    return _known(fact, filters.known_at) and _valid(fact, filters.valid_at)


def _tagged(fact: Fact, tags: tuple[str, ...]) -> bool:
    own = {facts.normal_tag(tag) for tag in fact.tags}
    return own.issuperset(facts.normal_tag(tag) for tag in tags)


def _known(fact: Fact, at: datetime | None) -> bool:
    if at is None:
        return fact.lifecycle == "live"
    return fact.recorded_at <= at and (fact.closed_at is None or at < fact.closed_at)


def _valid(fact: Fact, at: datetime | None) -> bool:
    if at is None:
        return True
    begun = fact.valid_from is None or fact.valid_from <= at
    return begun and (fact.valid_until is None or at < fact.valid_until)
