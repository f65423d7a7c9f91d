"""The provenance of a fact, and what it affected since."""

from __future__ import annotations

from pydantic import Field

from knowledge_client.base_model import UtcDatetime, WireModel
from knowledge_client.models.facts import Alias, Fact
from knowledge_client.models.links import Link
from knowledge_client.models.recall import Receipt
from knowledge_client.models.runs import Run
from knowledge_client.models.usage import UsageCount, UsageKind


class PromotionRecord(WireModel):
    """A copy of a fact in a wider scope, and the rule behind it; for callers who may see both."""

    origin: str
    copy_: str = Field(alias="copy")
    rule: str
    actor: str
    at: UtcDatetime
    undone_at: UtcDatetime | None = None


class Correction(WireModel):
    """How a fact was closed, and which facts replaced it."""

    lifecycle: str
    reason: str | None = None
    actor: str | None = None
    at: UtcDatetime
    replaced_by: tuple[str, ...] = ()


class ConfirmationRecord(WireModel):
    """A confirmation of a fact."""

    actor: str
    session: str | None = None
    at: UtcDatetime


class ReviewRecord(WireModel):
    """A reviewer's decision about a fact."""

    decision: str
    actor: str
    actor_type: str
    reason: str | None = None
    at: UtcDatetime


class FactProvenance(WireModel):
    """Where a fact comes from: its source and run, what its author had recalled, and its origins.

    `derivation` holds the links `derived_from`, `promoted_from` and `supersedes` that lead back
    from the fact, transitively, nearest first. Facts that the caller may not see are left out.
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
    """A recall that returned the fact."""

    receipt: str
    principal: str
    scope: str
    run: str | None = None
    at: UtcDatetime


class Impact(WireModel):
    """What a fact affected: the recalls that returned it, their runs, and derived facts.

    Recalls are newest first; `truncated` means that there are more than the response holds.
    """

    fact: str
    recalls: tuple[RecallExposure, ...] = ()
    runs: tuple[str, ...] = ()
    derived: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    usage: dict[UsageKind, UsageCount] = Field(default_factory=dict)
    truncated: bool = False
