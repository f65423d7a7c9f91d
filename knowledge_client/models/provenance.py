"""Where a fact comes from, and what it has touched since."""

from __future__ import annotations

from pydantic import Field

from knowledge_client.base_model import UtcDatetime, WireModel
from knowledge_client.models.facts import Alias, Fact
from knowledge_client.models.links import Link
from knowledge_client.models.recall import Receipt
from knowledge_client.models.runs import Run
from knowledge_client.models.usage import UsageCount, UsageKind


class PromotionRecord(WireModel):
    """One copy of a fact on a wider level, and by which rule; told to who may see both."""

    origin: str
    copy_: str = Field(alias="copy")
    rule: str
    actor: str
    at: UtcDatetime
    undone_at: UtcDatetime | None = None


class Correction(WireModel):
    """How a fact's validity was ended, and by which facts it was replaced."""

    lifecycle: str
    reason: str | None = None
    actor: str | None = None
    at: UtcDatetime
    replaced_by: tuple[str, ...] = ()


class ConfirmationRecord(WireModel):
    """Somebody said the same again."""

    actor: str
    session: str | None = None
    at: UtcDatetime


class ReviewRecord(WireModel):
    """A decision about a fact."""

    decision: str
    actor: str
    actor_type: str
    reason: str | None = None
    at: UtcDatetime


class FactProvenance(WireModel):
    """Where a fact comes from: source, run, what was in front of its author, what it was made of.

    `derivation` holds the links `derived_from`, `promoted_from` and `supersedes` that lead back
    from the fact, transitively, the nearest first. What the reader may not see is left out.
    """

    fact: Fact
    aliases: tuple[Alias, ...] = ()
    run: Run | None = None
    receipts: tuple[Receipt, ...] = ()
    derivation: tuple[Link, ...] = ()
    origins: tuple[Fact, ...] = ()
    promotions: tuple[PromotionRecord, ...] = ()
    corrections: tuple[Correction, ...] = ()
    confirmations: tuple[ConfirmationRecord, ...] = ()
    reviews: tuple[ReviewRecord, ...] = ()


class RecallExposure(WireModel):
    """One recall that returned the fact."""

    receipt: str
    principal: str
    scope: str
    run: str | None = None
    at: UtcDatetime


class Impact(WireModel):
    """What a fact has touched: each recall that returned it, the runs of those, what came of it.

    Recalls are the newest first; `truncated` says that there are more than the answer holds.
    """

    fact: str
    recalls: tuple[RecallExposure, ...] = ()
    runs: tuple[str, ...] = ()
    derived: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    usage: dict[UsageKind, UsageCount] = Field(default_factory=dict)
    truncated: bool = False
