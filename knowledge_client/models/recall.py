"""Ranked retrieval and the receipts of it."""

from __future__ import annotations

from pydantic import Field

from knowledge_client.models.facts import Fact, ScopeRef
from knowledge_client.wire import Moment, Whole, Wire


class ActAs(Wire):
    """The ServiceAccount whose view a recall shall have. The operator only."""

    namespace: str
    service_account: str


class RecallIn(Wire):
    """A ranked retrieval.

    `max_tokens` bounds the sum of the facts' lengths, at four characters a token.
    """

    query: str = Field(max_length=8192)
    limit: int = Field(default=20, ge=1, le=100)
    max_tokens: Whole | None = Field(default=None, ge=1, le=100_000)
    kinds: tuple[str, ...] = Field(default=(), max_length=32)
    tags: tuple[str, ...] = Field(default=(), max_length=32)
    min_confidence: float = Field(default=0, ge=0, le=1)
    scopes: tuple[ScopeRef, ...] = Field(default=(), max_length=32)
    valid_at: Moment | None = None
    known_at: Moment | None = None
    run: str | None = None
    attempt: Whole | None = Field(default=None, ge=1)
    act_as: ActAs | None = None


class RecalledFact(Fact):
    """A fact with its 1-based rank, its score and the score's parts.

    Scores are comparable within one recall only.
    """

    rank: int
    score: float
    parts: dict[str, float] = Field(default_factory=dict)


class Recalled(Wire):
    """The answer of a recall, best first. `receipt` is absent when it could not be written."""

    receipt: str | None
    facts: tuple[RecalledFact, ...]
    scopes: tuple[str, ...]
    known_at: Moment
    ranker: str


class Receipt(Wire):
    """What one recall returned, to whom, when; never text."""

    id: str
    query_hash: str
    principal: str
    scopes: tuple[str, ...]
    known_at: Moment
    ranker: str
    analyser: str
    run: str | None = None
    attempt: Whole | None = None
    facts: tuple[str, ...]
    scores: tuple[float, ...]
