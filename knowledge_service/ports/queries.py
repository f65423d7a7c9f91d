"""Queries and results of a store that are not wire models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from knowledge_client.models import (
    Fact,
    Receipt,
)
from knowledge_service.domain.access_control import ScopeRange, View, realm_of
from knowledge_service.domain.facets import Facet
from knowledge_service.domain.principals import PrincipalType
from knowledge_service.domain.recall_filters import Filters
from knowledge_service.domain.run_reports import RunKey


@dataclass(frozen=True)
class Actor:
    """The author of a write; `name` is stored in sources and the event log.

    `for_agents` marks an internal actor that stores facts on behalf of agents, such as extraction.
    `author` is the author of an agent's facts. With `changes_only_own`, the actor may change only
    facts of this author. `view` is what a caller may see; the service itself has none.
    """

    name: str
    type: PrincipalType
    for_agents: bool = False
    author: str | None = None
    changes_only_own: bool = False
    view: View | None = None

    @property
    def is_bounded(self) -> bool:
        """Return whether the limits of undeclared scopes apply to the actor."""
        return self.for_agents or self.type == "agent"


@dataclass(frozen=True)
class IdempotencyKey:
    """An Idempotency-Key. A repeat with the same body returns the first answer and writes nothing.

    `principal` is an identity, not a name, because two callers may have the same name.
    """

    principal: str
    key: str
    body_hash: str


@dataclass(frozen=True)
class ActionContext:
    """The actor and the reason of an operation on a fact.

    With an idempotency key, a repeat returns the first answer. `may_change` decides about facts
    that become known only during the write; None permits every change.
    """

    actor: Actor
    reason: str
    idempotency_key: IdempotencyKey | None = None
    may_change: Callable[[Fact], bool] | None = None


@dataclass(frozen=True)
class Search:
    """A ranked retrieval in the scopes that are both named and visible.

    Attributes:
        scopes: None stands for all visible scopes.
        now: the base of relative dates such as "last week", and of the age of facts.
        explain: add each query term's share of the score to the parts of a hit.
        why_not: ids of facts whose outcome is explained.
        synonyms: groups of words that expand to each other, in addition to the shipped thesaurus.
    """

    view: View
    query: str
    limit: int
    scopes: tuple[str, ...] | None = None
    filters: Filters = field(default_factory=Filters)
    now: datetime | None = None
    explain: bool = False
    why_not: tuple[str, ...] = ()
    synonyms: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Hit:
    """A fact with its score and the parts of the score.

    The score is the sum of the features, multiplied by the factors, whose names begin with `x_`.
    Parts that begin with `=` are the shares of query terms in `bm25` and are not added again.
    """

    fact: Fact
    score: float
    parts: Mapping[str, float]


@dataclass(frozen=True)
class RecallExplanation:
    """The outcome of one fact in a retrieval: the deciding stage, and the reason."""

    stage: str
    why: str


@dataclass(frozen=True)
class SearchResult:
    """The answer to a `Search`: the best facts, equal scores by id.

    `scopes` are the visible scopes that were searched, as `visible_scopes` returns them.
    `explanations` covers the facts in `why_not` that are in a searched scope.
    """

    hits: tuple[Hit, ...]
    scopes: tuple[str, ...]
    explanations: Mapping[str, RecallExplanation]


@dataclass(frozen=True)
class Listing:
    """A query for a page of facts, newest first; only facts older than `before_id`.

    With `about`, facts about that fact are listed in the order of their positions, and only those
    after the (position, id) in `after_position`; facts without a position come last. What is about
    one version of a revised fact is about every version.

    Attributes:
        known_at: lists facts as they were known at that time.
        valid_at: lists the facts that were valid in the world at that time.
        contains: a part of the title, content or subject; case is ignored.
        alias_namespace: only facts with an alias in this namespace now.
        facets: values that the data of a fact must all have.
        is_unlinked: only facts without a live link that the reader may see now.
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
    about: str | None = None
    after_position: tuple[int | None, str] | None = None
    schema: str | None = None
    subject: str | None = None
    contains: str | None = None
    alias_namespace: str | None = None
    is_unlinked: bool = False
    facets: tuple[Facet, ...] = ()


@dataclass(frozen=True)
class RunListing:
    """A query for a page of runs.

    The run opened last comes first; only runs opened before `before_run` are listed.
    """

    view: View
    limit: int
    namespace: str | None = None
    blueprint: str | None = None
    before_run: RunKey | None = None


@dataclass(frozen=True)
class NewReceipt:
    """A receipt to store, with the home scope of the principal that the recall was for.

    `run_realm` is the realm of the receipt's run; None stands for the observer's realm.
    """

    receipt: Receipt
    observer: str
    run_realm: str | None = None

    @property
    def realm(self) -> str:
        """The realm in which the run of the receipt is looked up."""
        return self.run_realm or realm_of(self.observer)


@dataclass(frozen=True)
class ReviewQuery:
    """A query for a page of the review queue in `scope_ranges`, newest first."""

    scope_ranges: tuple[ScopeRange, ...]
    limit: int
    before_id: str | None = None
