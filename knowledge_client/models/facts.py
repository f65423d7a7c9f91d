"""Facts and their sources, and the requests and responses about them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from knowledge_client.base_model import Reason, SafeInt, UtcDatetime, WireModel, WireScope

ScopeRef = str | WireScope
"""A scope: a path, `mine` for the caller's home, or the object form of older clients."""
MINE = "mine"
Tag = Annotated[str, Field(max_length=64)]
FactKind = Annotated[str, Field(max_length=64)]
FactReference = Annotated[str, Field(max_length=1200)]
"""The id of a fact, or `alias:<namespace>:<value>`."""


class Ref(WireModel):
    """A pointer to what a fact came from: `{"type": "mission", "id": "demo/doctor-x1"}`."""

    type: str = Field(min_length=1, max_length=64)
    id: str = Field(min_length=1, max_length=512)


class Source(WireModel):
    """Where a fact came from. The service sets `actor` and `author` from the caller's identity.

    `author` is the home scope of the cell that stored the fact. It stays the same when a pod
    restarts, and in the next run of a Blueprint, where the cell has another account. For an agent
    whose home is wider than a cell, `author` is its name, because others can have that home too.
    """

    type: Literal[
        "mission_extraction", "explicit_remember", "user_input", "promoted", "experiment", "import"
    ] = "user_input"
    refs: tuple[Ref, ...] = Field(default=(), max_length=32)
    actor: str | None = None
    author: str | None = None
    mission_id: str | None = Field(default=None, min_length=1, max_length=512, exclude=True)
    experiment_id: str | None = Field(default=None, min_length=1, max_length=512, exclude=True)


class Alias(WireModel):
    """Another name of a fact, unique in its scope; write `alias:<namespace>:<value>` as an id."""

    namespace: str
    value: str


class NamedFact(WireModel):
    """An alias, the fact that has it, and its scope."""

    namespace: str
    value: str
    scope: str
    fact_id: str


class AliasPage(WireModel):
    """Aliases in the order of their values. `cursor` is absent on the last page."""

    aliases: tuple[NamedFact, ...]
    cursor: str | None = None


FacetText = Annotated[str, Field(min_length=1, max_length=512)]
"""`NAME=VALUE`: a path of members in `data`, and a value there."""


class AliasIn(WireModel):
    """A name for a fact: a value, or a prefix to which the next free number is appended.

    A number is never used again. `{"namespace": "ko", "prefix": "KO-shop-", "digits": 3}` makes
    `KO-shop-001`.
    """

    namespace: str = Field(pattern=r"^[a-z][a-z0-9-]{0,62}$")
    value: str | None = Field(default=None, min_length=1, max_length=512)
    prefix: str | None = Field(default=None, max_length=500)
    digits: int = Field(default=1, ge=1, le=9)

    @model_validator(mode="after")
    def _value_or_prefix(self) -> Self:
        if (self.value is None) == (self.prefix is None):
            raise ValueError("an alias has one of value and prefix")
        return self


class FactIn(WireModel):
    """A fact to remember.

    `scope` defaults to the caller's default scope: for a cell that of its Formation, which is its
    Blueprint's. `mine` is the caller's home.
    """

    content: str = Field(min_length=1, max_length=8192)
    scope: ScopeRef | None = None
    kind: FactKind = Field(default="fact", min_length=1)
    title: str | None = Field(default=None, max_length=200)
    data: Any = None
    schema_: str | None = Field(default=None, alias="schema", max_length=64)
    about: str | None = Field(default=None, max_length=512)
    position: SafeInt | None = None
    subject: str | None = Field(default=None, max_length=512)
    predicate: str | None = Field(default=None, max_length=512)
    tags: tuple[Tag, ...] = Field(default=(), max_length=32)
    confidence: float | None = Field(default=None, ge=0, le=1)
    source: Source | None = None
    expires_at: UtcDatetime | None = None
    valid_from: UtcDatetime | None = None
    valid_until: UtcDatetime | None = None
    aliases: tuple[AliasIn, ...] = Field(default=(), max_length=8)
    review: Literal["none", "draft"] = "none"
    force: bool = Field(
        default=False, description="store the fact although an equal one was retracted"
    )
    run: str | None = Field(default=None, description="id of the run that stored this fact")
    attempt: SafeInt | None = Field(default=None, ge=1)


class Fact(WireModel):
    """A stored fact."""

    id: str
    scope: str
    kind: str
    title: str | None = None
    content: str
    data: Any = None
    schema_: str | None = Field(default=None, alias="schema")
    about: str | None = None
    position: SafeInt | None = None
    subject: str | None = None
    predicate: str | None = None
    tags: tuple[str, ...] = ()
    confidence: float
    source: Source
    lifecycle: Literal["live", "superseded", "retracted", "archived"] = "live"
    review: Literal["none", "draft", "approved", "rejected"] = "none"
    flags: tuple[str, ...] = ()
    expires_at: UtcDatetime | None = None
    valid_from: UtcDatetime | None = None
    valid_until: UtcDatetime | None = None
    recorded_at: UtcDatetime
    closed_at: UtcDatetime | None = None
    closed_reason: str | None = None
    version: int = 1


class FactsIn(WireModel):
    """Facts to store atomically."""

    facts: tuple[FactIn, ...] = Field(min_length=1, max_length=200)


class Remembered(WireModel):
    """The result for a fact: `created`, or `confirmed` when an equal one was live already."""

    fact_id: str
    status: Literal["created", "confirmed"]
    aliases: tuple[Alias, ...] = ()
    superseded: tuple[str, ...] = ()
    contradicts: tuple[str, ...] = ()


class RememberedBatch(WireModel):
    """The result for each fact of a batch, in the order of the request."""

    results: tuple[Remembered, ...]


class FactPage(WireModel):
    """A page of facts, newest first. `cursor` is opaque, and absent on the last page."""

    facts: tuple[Fact, ...]
    cursor: str | None = None


class CorrectIn(WireModel):
    """Closes a fact. With `replacement`, a successor is stored and linked."""

    reason: Reason
    replacement: str | None = Field(default=None, min_length=1, max_length=8192)


class CorrectionResult(WireModel):
    """The closed fact, its successor when there is one, and its promoted copies.

    `copies_retracted` are closed. `copies_flagged` were confirmed by others: they wait for a review
    and no run gets them until then. Both name what the caller may read, nearest level first.
    """

    fact_id: str
    replacement_id: str | None = None
    copies_retracted: tuple[str, ...] = ()
    copies_flagged: tuple[str, ...] = ()
