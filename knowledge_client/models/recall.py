"""Ranked retrieval and the receipts of it."""

from __future__ import annotations

from pydantic import Field

from knowledge_client.base_model import SafeInt, UtcDatetime, WireModel
from knowledge_client.models.facts import Fact, ScopeRef


class ActAs(WireModel):
    """The ServiceAccount whose view a recall shall have. The operator only."""

    namespace: str
    service_account: str


class RecallIn(WireModel):
    """A ranked retrieval.

    `max_tokens` bounds the sum of the facts' lengths, at four characters a token. `explain` adds to
    each fact's parts what each word of the question gave to it; `why_not` asks of facts by id what
    became of them.
    """

    query: str = Field(max_length=8192)
    limit: int = Field(default=20, ge=1, le=100)
    max_tokens: SafeInt | None = Field(default=None, ge=1, le=100_000)
    kinds: tuple[str, ...] = Field(default=(), max_length=32)
    tags: tuple[str, ...] = Field(default=(), max_length=32)
    min_confidence: float = Field(default=0, ge=0, le=1)
    scopes: tuple[ScopeRef, ...] = Field(default=(), max_length=32)
    valid_at: UtcDatetime | None = None
    known_at: UtcDatetime | None = None
    run: str | None = None
    attempt: SafeInt | None = Field(default=None, ge=1)
    act_as: ActAs | None = None
    include_closed: bool = Field(
        default=False, description="return what was superseded, retracted or archived, too"
    )
    explain: bool = False
    why_not: tuple[str, ...] = Field(default=(), max_length=10)


class FactExplanation(WireModel):
    """What became of one fact in a recall: the stage that decided, and why in words.

    Stages: `invisible`, `no-match`, `candidates`, `filters`, `overridden`, `folded`, `limit`,
    `budget`, `off`, and `returned`.
    """

    fact: str
    stage: str
    why: str


class RecalledFact(Fact):
    """A fact with its 1-based rank, its score and the score's parts.

    Scores are comparable within one recall only. A score is the sum of its arms (`bm25`, `context`,
    `session`, `links`, `meaning`) times its factors (`x_...`).
    """

    rank: int
    score: float
    parts: dict[str, float] = Field(default_factory=dict)


class Recalled(WireModel):
    """The answer of a recall, best first. `receipt` is absent when it could not be written."""

    receipt: str | None
    facts: tuple[RecalledFact, ...]
    scopes: tuple[str, ...]
    known_at: UtcDatetime
    ranker: str
    why_not: tuple[FactExplanation, ...] = ()


class RecordedQuery(WireModel):
    """A recall's question as it was worked out: enough to ask it again."""

    query: str
    limit: int
    max_tokens: SafeInt | None = None
    kinds: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    min_confidence: float = 0.0
    valid_at: UtcDatetime | None = None
    known_at: UtcDatetime | None = None
    scopes: tuple[str, ...] | None = None
    filled_up: bool = False
    include_closed: bool = False


class Receipt(WireModel):
    """What one recall returned, to whom, when; never a fact's text.

    `versions` are those of the facts, in their order: a fact's history says what each said. It is
    empty in receipts from before versions were kept. `acted_by` is the caller when it
    recalled with the view of another `principal`.
    """

    id: str
    query_hash: str
    principal: str
    scopes: tuple[str, ...]
    known_at: UtcDatetime
    ranker: str
    analyser: str
    run: str | None = None
    attempt: SafeInt | None = None
    facts: tuple[str, ...]
    versions: tuple[SafeInt, ...] = ()
    scores: tuple[float, ...]
    asked: RecordedQuery | None = None
    acted_by: str | None = None


class RankChange(WireModel):
    """Where one fact stood in two answers to one question; None where it was not in it."""

    fact: str
    rank_then: int | None = None
    rank_now: int | None = None
    score_then: float | None = None
    score_now: float | None = None


class ReplayResult(WireModel):
    """A recall beside the same question asked again: as of then (`replay`) or of now (`diff`).

    `equal` means the same facts in the same order with the same scores, to the bit. `reasons` says
    what is known about why it is not, and which ranker or analyser it was when it was another.
    """

    receipt: str
    known_at: UtcDatetime
    equal: bool
    facts: tuple[str, ...]
    scores: tuple[float, ...]
    moved: tuple[RankChange, ...] = ()
    reasons: tuple[str, ...] = ()
