"""What can be done to a fact after it was remembered, each with a reason, and what came of it."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from knowledge_client.base_model import Reason, UtcDatetime, WireModel
from knowledge_client.models.facts import Fact, Tag


class ReasonIn(WireModel):
    """Why a fact is retracted, restored, promoted, rejected, undone or erased."""

    reason: Reason


class ConfirmIn(WireModel):
    """A confirmation; `session` names what it happened in, such as a run."""

    reason: Reason | None = None
    session: str | None = Field(default=None, min_length=1, max_length=512)


class ApproveIn(WireModel):
    """An approval. With `content`, a successor with these words is approved in its place."""

    reason: Reason
    content: str | None = Field(default=None, min_length=1, max_length=8192)
    title: str | None = Field(default=None, max_length=200)
    tags: tuple[Tag, ...] | None = Field(default=None, max_length=32)


class ApprovalResult(WireModel):
    """The approved fact; `replaced` is the one whose words were edited away.

    The promoted copies of `replaced` are named as in `Corrected`.
    """

    fact: Fact
    replaced: str | None = None
    copies_retracted: tuple[str, ...] = ()
    copies_flagged: tuple[str, ...] = ()


class PromotionResult(WireModel):
    """The fact one level up: a new copy, or an equal one there that was confirmed instead."""

    fact_id: str
    copy_id: str
    scope: str
    status: str = Field(description="`created` or `confirmed`")


class UndoResult(WireModel):
    """What was taken back, and every fact that changed with it."""

    fact_id: str
    undone: str = Field(description="type of the event that was undone, such as `fact.closed`")
    changed: tuple[str, ...]


class ErasureResult(WireModel):
    """What an erasure reached and what it cannot reach.

    Copies of the database made before `erased_at` still hold the text. `derived` names facts that
    were made from an erased one and stand on their own words: read them, and erase them too; those
    that the caller sees. `links` and `events` are counted for who sees everything that they may be
    of, absent for others. No route serves the text any more; `on_disk` says that its bytes are
    still in the write-ahead log, because another process reads the file just then.
    """

    facts: tuple[str, ...]
    copies: tuple[str, ...]
    derived: tuple[str, ...]
    links: int | None
    events: int | None
    erased_at: UtcDatetime
    backups: str
    on_disk: bool = False


class HistoryEntry(WireModel):
    """One event about a fact, in words and values."""

    type: str
    actor: str
    at: UtcDatetime
    reason: str | None = None
    set: dict[str, Any] = Field(default_factory=dict)
    facts: tuple[str, ...] = ()


class History(WireModel):
    """A fact's versions, the oldest first, each with the time it was known from, and its events."""

    fact_id: str
    versions: tuple[Fact, ...]
    known_from: tuple[UtcDatetime, ...]
    entries: tuple[HistoryEntry, ...]


class ReviewPage(WireModel):
    """Facts that wait for a reviewer, the newest first: drafts and flagged ones."""

    facts: tuple[Fact, ...]
    cursor: str | None = None
