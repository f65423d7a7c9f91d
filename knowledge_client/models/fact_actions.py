"""The actions on a stored fact, each with a reason, and their results."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from knowledge_client.base_model import Reason, UtcDatetime, WireModel
from knowledge_client.models.facts import Fact, Tag


class ReasonIn(WireModel):
    """The reason for an action on a fact."""

    reason: Reason


class ConfirmIn(WireModel):
    """A confirmation; `session` names where it happened, such as a run."""

    reason: Reason | None = None
    session: str | None = Field(default=None, min_length=1, max_length=512)


class ApproveIn(WireModel):
    """An approval. With `content`, `title` or `tags`, a successor that has these is approved."""

    reason: Reason
    content: str | None = Field(default=None, min_length=1, max_length=8192)
    title: str | None = Field(default=None, max_length=200)
    tags: tuple[Tag, ...] | None = Field(default=None, max_length=32)


class ApprovalResult(WireModel):
    """The approved fact; `replaced` is the one that an edited successor replaced.

    The promoted copies of `replaced` are listed as in `CorrectionResult`.
    """

    fact: Fact
    replaced: str | None = None
    copies_retracted: tuple[str, ...] = ()
    copies_flagged: tuple[str, ...] = ()


class PromotionResult(WireModel):
    """The copy in the scope above, or the equal fact there that was confirmed instead."""

    fact_id: str
    copy_id: str
    scope: str
    status: str = Field(description="`created` or `confirmed`")


class UndoResult(WireModel):
    """The action that was undone, and every fact that changed with it."""

    fact_id: str
    undone: str = Field(description="type of the event that was undone, such as `fact.closed`")
    changed: tuple[str, ...]


class ErasureResult(WireModel):
    """The result of an erasure, and what remains.

    Copies of the database from before `erased_at` still contain the text. `derived` lists facts
    that were derived from an erased one, and its other versions, that the caller may see: read
    them, and erase them if they repeat the text. `links` and `events` are counts, absent unless the
    caller may see all of them. No route returns the text now; `on_disk` means that its bytes
    are still in the write-ahead log, because another process is reading the file.
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
    """One event about a fact, with the fields that it set."""

    type: str
    actor: str
    at: UtcDatetime
    reason: str | None = None
    set: dict[str, Any] = Field(default_factory=dict)
    facts: tuple[str, ...] = ()


class History(WireModel):
    """The versions of a fact, oldest first, each with its start time, and its events."""

    fact_id: str
    versions: tuple[Fact, ...]
    known_from: tuple[UtcDatetime, ...]
    entries: tuple[HistoryEntry, ...]


class ReviewPage(WireModel):
    """Facts that wait for a review, newest first: drafts and flagged ones."""

    facts: tuple[Fact, ...]
    cursor: str | None = None
