"""How facts were used after a recall."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from knowledge_client.base_model import UtcDatetime, WireModel

UsageKind = Literal[
    "recalled", "injected", "consulted", "applied", "succeeded", "failed", "prevented"
]


class FactUse(WireModel):
    """One fact, by id or alias, and how it was used."""

    fact: str = Field(min_length=1, max_length=1200)
    kind: UsageKind
    count: int = Field(default=1, ge=1, le=1000)


class UsageIn(WireModel):
    """Uses to record atomically, with the caller's home scope as the observer.

    `run` is a run of the caller, and `session` names any other context. Both are in the audit log
    and in the event stream.
    """

    uses: tuple[FactUse, ...] = Field(min_length=1, max_length=200)
    run: str | None = Field(default=None, min_length=1, max_length=253)
    session: str | None = Field(default=None, min_length=1, max_length=512)


class UsageCounted(WireModel):
    """How many uses were recorded."""

    counted: int


class UsageCount(WireModel):
    """How often and when last a fact was used in one way, as far as the caller may see."""

    count: int
    last_at: UtcDatetime
