"""Recall: the request, the ranked facts, and the receipt."""

from __future__ import annotations

import operator

from pydantic import Field

from knowledge_client.base_model import SafeInt, UtcDatetime, WireModel
from knowledge_client.models.facts import (
    FacetText,
    Fact,
    FactKind,
    FactReference,
    ScopeRef,
    Tag,
)


class ActAs(WireModel):
    """The ServiceAccount to impersonate in a recall; for the operator only."""

    namespace: str
    service_account: str


class RecallIn(WireModel):
    """A query for the best matching facts.

    `max_tokens` bounds the total length of the facts, at four characters a token. `explain` adds
    the contribution of each term to the parts of each fact; `why_not` asks for the outcome of
    certain facts, by id.
    """

    query: str = Field(max_length=8192)
    limit: int = Field(default=20, ge=1, le=100)
    max_tokens: SafeInt | None = Field(default=None, ge=1, le=100_000)
    kinds: tuple[FactKind, ...] = Field(default=(), max_length=32)
    tags: tuple[Tag, ...] = Field(default=(), max_length=32)
    schema_: str | None = Field(default=None, alias="schema", max_length=64)
    facets: tuple[FacetText, ...] = Field(
        default=(),
        max_length=8,
        description="NAME=VALUE: only facts whose data has this value; needs `schema`",
    )
    min_confidence: float = Field(default=0, ge=0, le=1)
    scopes: tuple[ScopeRef, ...] = Field(default=(), max_length=32)
    valid_at: UtcDatetime | None = None
    known_at: UtcDatetime | None = None
    run: str | None = None
    attempt: SafeInt | None = Field(default=None, ge=1)
    act_as: ActAs | None = None
    ticket: str | None = Field(
        default=None,
        max_length=8192,
        description="the ticket under which a cell was called; the arm of the recall is its arm",
    )
    include_closed: bool = Field(
        default=False, description="include superseded, retracted and archived facts"
    )
    explain: bool = False
    why_not: tuple[FactReference, ...] = Field(default=(), max_length=10)


class FactExplanation(WireModel):
    """The outcome of one fact in a recall: the stage that decided, and the explanation.

    Stages: `invisible`, `no-match`, `candidates`, `filters`, `overridden`, `folded`, `limit`,
    `budget`, `off`, and `returned`.
    """

    fact: str
    stage: str
    why: str


class RecalledFact(Fact):
    """A fact with its rank (from 1), its score and the parts of the score.

    Scores are comparable within one recall only. A score is the sum of some parts (`bm25`,
    `context`, `links`, `meaning`, `word_vectors`) times the factors (`x_...`).
    """

    rank: int
    score: float
    parts: dict[str, float] = Field(default_factory=dict)


class Recalled(WireModel):
    """The result of a recall, best first. `receipt` is absent when it could not be written."""

    receipt: str | None
    facts: tuple[RecalledFact, ...]
    scopes: tuple[str, ...]
    known_at: UtcDatetime
    ranker: str
    why_not: tuple[FactExplanation, ...] = ()
    reasons: tuple[str, ...] = Field(
        default=(),
        exclude_if=operator.not_,
        description="why the run gets no facts, such as a holdout",
    )


class RecordedQuery(WireModel):
    """The parameters of a recall, complete enough to run it again."""

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
    synonyms: tuple[tuple[str, ...], ...] = Field(default=(), exclude_if=operator.not_)
    schema_: str | None = Field(default=None, alias="schema", exclude_if=operator.not_)
    facets: tuple[str, ...] = Field(default=(), exclude_if=operator.not_)


class Receipt(WireModel):
    """The record of one recall: the facts, the caller and the time, without texts of facts.

    `versions` has the versions of `facts`, in the same order; the history of a fact has their
    texts. It is empty in older receipts. `acted_by` is the caller that impersonated `principal`.
    `reasons` says why the run gets no facts.
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
    reasons: tuple[str, ...] = Field(default=(), exclude_if=operator.not_)


class RankChange(WireModel):
    """The rank of one fact in two results of the same query; None where it is missing."""

    fact: str
    rank_then: int | None = None
    rank_now: int | None = None
    score_then: float | None = None
    score_now: float | None = None


class ReplayResult(WireModel):
    """A recall compared with the same query as of then (`replay`) or as of now (`diff`).

    `equal` means the same facts in the same order with the same scores, to the bit. `reasons`
    explains differences, such as another version of the ranker or analyser.
    """

    receipt: str
    known_at: UtcDatetime
    equal: bool
    facts: tuple[str, ...]
    scores: tuple[float, ...]
    moved: tuple[RankChange, ...] = ()
    reasons: tuple[str, ...] = ()
