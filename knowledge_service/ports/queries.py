"""Queries and results of a store that are no wire models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from knowledge_client.models import (
    Fact,
    Receipt,
)
from knowledge_service.domain.access_control import PrincipalType, ScopeRange, View, realm_of
from knowledge_service.domain.recall_filters import Filters
from knowledge_service.domain.run_merge import RunKey


@dataclass(frozen=True)
class Actor:
    """Who writes: the name goes into sources and the event log.

    `for_agents` marks an actor of ours that stores what agents caused, such as the extraction.
    """

    name: str
    type: PrincipalType
    for_agents: bool = False

    @property
    def is_bounded(self) -> bool:
        """Tell whether the bound of undeclared scopes holds the actor."""
        return self.for_agents or self.type == "agent"


@dataclass(frozen=True)
class IdempotencyKey:
    """An Idempotency-Key: a repeat with the same body gets the first answer and writes nothing.

    `principal` is an identity, not a name: two callers may have one name.
    """

    principal: str
    key: str
    body_hash: str


@dataclass(frozen=True)
class ActionContext:
    """Who wants something done to a fact, and why; with a key, a repeat gets the first answer."""

    actor: Actor
    reason: str
    idempotency_key: IdempotencyKey | None = None


@dataclass(frozen=True)
class Search:
    """A ranked retrieval in the scopes that are both named and visible.

    None names all visible ones. `now` is what "last week" and the age of facts are counted from;
    `explain` adds what each word of the question gave to a fact's parts; `why_not` are ids of facts
    whose outcome is explained.
    """

    view: View
    query: str
    limit: int
    scopes: tuple[str, ...] | None = None
    filters: Filters = field(default_factory=Filters)
    now: datetime | None = None
    explain: bool = False
    why_not: tuple[str, ...] = ()


@dataclass(frozen=True)
class Hit:
    """A fact with its score and the parts that it is made of.

    The sum of the arms times each factor, whose names begin with `x_`; parts that begin with `=`
    say what a word of the question gave to `bm25`, and are counted there already.
    """

    fact: Fact
    score: float
    parts: Mapping[str, float]


@dataclass(frozen=True)
class RecallExplanation:
    """What became of one fact in a retrieval: the stage that decided, and the reason."""

    stage: str
    why: str


@dataclass(frozen=True)
class SearchResult:
    """The answer to a `Search`: the best facts, equal scores by id.

    `scopes` are the visible scopes that were searched, as `visible_scopes` returns them.
    `explanations` are those of the facts in `why_not`, without facts that are in no searched scope.
    """

    hits: tuple[Hit, ...]
    scopes: tuple[str, ...]
    explanations: Mapping[str, RecallExplanation]


@dataclass(frozen=True)
class Listing:
    """A page of facts to be listed: newest first, only older than the fact `before`.

    `known_at` lists facts as they were known then; `valid_at` those that held in the world then.
    """

    view: View
    limit: int
    scopes: tuple[str, ...] | None = None
    kind: str | None = None
    tag: str | None = None
    lifecycle: str | None = None
    source: str | None = None
    before_id: str | None = None
    review: str | None = None
    valid_at: datetime | None = None
    known_at: datetime | None = None


@dataclass(frozen=True)
class RunListing:
    """A page of runs to be listed.

    The one opened last first, only opened before the run `before`.
    """

    view: View
    limit: int
    namespace: str | None = None
    blueprint: str | None = None
    before_run: RunKey | None = None


@dataclass(frozen=True)
class NewReceipt:
    """A receipt to be kept, and the home scope of whom the recall was for.

    `run_realm` is the realm of the receipt's run; None takes the observer's.
    """

    receipt: Receipt
    observer: str
    run_realm: str | None = None

    @property
    def realm(self) -> str:
        """The realm in which the run of the receipt is looked for."""
        return self.run_realm or realm_of(self.observer)


@dataclass(frozen=True)
class ReviewQuery:
    """A page of what waits for a reviewer in scopes that `reaches` cover, the newest first."""

    scope_ranges: tuple[ScopeRange, ...]
    limit: int
    before_id: str | None = None
