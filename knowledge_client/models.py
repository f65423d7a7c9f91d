"""The bodies of the knowledge service's HTTP interface: one model for client and service.

Times are aware UTC datetimes. Scopes are paths (`realm:demo/formation:review-team`) or `WireScope`.
Sizes that a body may have are the service's limits; an answer of 413 or 422 names the one that was passed.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from knowledge_client.wire import Wire, WireScope

ScopeRef = str | WireScope
Verb = Literal["read", "write", "review", "promote", "extract", "admin"]
RunOutcome = Literal[
    "Succeeded", "Failed", "TimedOut", "BudgetExceeded", "Cancelled", "InfrastructureFailed"
]
EpisodeType = Literal["message", "decision", "tool_call", "tool_result", "error", "check"]


class Ref(Wire):
    """A pointer to what a fact came from: `{"type": "mission", "id": "demo/doctor-x1"}`."""

    type: str = Field(min_length=1, max_length=64)
    id: str = Field(min_length=1, max_length=512)


class Source(Wire):
    """Where a fact came from. `actor` is set by the service from the caller's identity."""

    type: Literal[
        "mission_extraction", "explicit_remember", "user_input", "promoted", "experiment", "import"
    ] = "user_input"
    refs: tuple[Ref, ...] = Field(default=(), max_length=32)
    actor: str | None = None
    mission_id: str | None = Field(default=None, exclude=True)
    experiment_id: str | None = Field(default=None, exclude=True)


class FactIn(Wire):
    """A fact to remember. Without `scope` it goes to the caller's home scope."""

    content: str = Field(min_length=1, max_length=8192)
    scope: ScopeRef | None = None
    kind: str = Field(default="fact", min_length=1, max_length=64)
    title: str | None = Field(default=None, max_length=200)
    data: Any = None
    schema_: str | None = Field(default=None, alias="schema", max_length=64)
    about: str | None = None
    position: int | None = None
    subject: str | None = Field(default=None, max_length=512)
    predicate: str | None = Field(default=None, max_length=512)
    tags: tuple[str, ...] = Field(default=(), max_length=32)
    confidence: float | None = Field(default=None, ge=0, le=1)
    source: Source | None = None
    expires_at: datetime | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    run: str | None = Field(default=None, description="run-id that this fact was learnt in")
    attempt: int | None = Field(default=None, ge=1)


class Fact(Wire):
    """A fact as the service knows it."""

    id: str
    scope: str
    kind: str
    title: str | None = None
    content: str
    data: Any = None
    schema_: str | None = Field(default=None, alias="schema")
    about: str | None = None
    position: int | None = None
    subject: str | None = None
    predicate: str | None = None
    tags: tuple[str, ...] = ()
    confidence: float
    source: Source
    lifecycle: Literal["live", "superseded", "retracted", "archived"] = "live"
    review: Literal["none", "draft", "approved", "rejected"] = "none"
    flags: tuple[str, ...] = ()
    expires_at: datetime | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    recorded_at: datetime
    closed_at: datetime | None = None


class Remembered(Wire):
    """What became of a fact: `created`, or `confirmed` when an equal one was live already."""

    fact_id: str
    status: Literal["created", "confirmed"]
    superseded: tuple[str, ...] = ()
    contradicts: tuple[str, ...] = ()


class FactPage(Wire):
    """A page of facts, newest first. `cursor` is opaque; absent on the last page."""

    facts: tuple[Fact, ...]
    cursor: str | None = None


class CorrectIn(Wire):
    """Close a fact's validity. With `replacement`, a successor is stored and linked."""

    reason: str = Field(min_length=1, max_length=2000)
    replacement: str | None = Field(default=None, min_length=1, max_length=8192)


class Corrected(Wire):
    """The closed fact and, when there is one, its successor."""

    fact_id: str
    replacement_id: str | None = None


class ActAs(Wire):
    """The ServiceAccount whose view a recall shall have. The operator only."""

    namespace: str
    service_account: str


class RecallIn(Wire):
    """A ranked retrieval. `max_tokens` bounds the sum of the facts' lengths, at four characters a token."""

    query: str = Field(max_length=8192)
    limit: int = Field(default=20, ge=1, le=100)
    max_tokens: int | None = Field(default=None, ge=1, le=100_000)
    kinds: tuple[str, ...] = Field(default=(), max_length=32)
    tags: tuple[str, ...] = Field(default=(), max_length=32)
    min_confidence: float = Field(default=0, ge=0, le=1)
    scopes: tuple[ScopeRef, ...] = Field(default=(), max_length=32)
    valid_at: datetime | None = None
    known_at: datetime | None = None
    run: str | None = None
    attempt: int | None = Field(default=None, ge=1)
    act_as: ActAs | None = None


class RecalledFact(Fact):
    """A fact with its 1-based rank, its score, comparable within one recall, and the score's parts."""

    rank: int
    score: float
    parts: dict[str, float] = Field(default_factory=dict)


class Recalled(Wire):
    """The answer of a recall, best first. `receipt` is absent when it could not be written."""

    receipt: str | None
    facts: tuple[RecalledFact, ...]
    scopes: tuple[str, ...]
    known_at: datetime
    ranker: str


class Receipt(Wire):
    """What one recall returned, to whom, when; never text."""

    id: str
    query_hash: str
    principal: str
    scopes: tuple[str, ...]
    known_at: datetime
    ranker: str
    analyser: str
    run: str | None = None
    attempt: int | None = None
    facts: tuple[str, ...]
    scores: tuple[float, ...]


class EpisodeIn(Wire):
    """One raw line of a run's record, keyed by run, attempt and content, so that repeats are harmless."""

    attempt: int = Field(default=1, ge=1)
    type: EpisodeType
    content: str = Field(min_length=1, max_length=8192)
    error_signature: str | None = Field(default=None, max_length=512)
    refs: tuple[Ref, ...] = Field(default=(), max_length=32)
    at: datetime | None = None


class EpisodesIn(Wire):
    """Episodes of one run, in order."""

    run_id: str
    episodes: tuple[EpisodeIn, ...] = Field(min_length=1, max_length=200)


class EpisodesAccepted(Wire):
    """How many episodes were new and how many the record had already."""

    accepted: int
    duplicates: int


class Episode(EpisodeIn):
    """An episode as recorded; `seq` orders those of one run from 1."""

    seq: int
    run_id: str
    actor: str


class RunIn(Wire):
    """One use of a Blueprint from start to end. Opening twice merges; another outcome at closing is 409."""

    kind: Literal["mission", "session", "import"] = "mission"
    namespace: str = Field(max_length=63)
    scope: str = Field(description="formation scope path in which the run works")
    blueprint: str | None = Field(default=None, max_length=253)
    revision: int | None = Field(default=None, ge=1)
    instance: str | None = None
    mission: str | None = None
    objective: str | None = Field(default=None, max_length=8192)
    parameters: dict[str, Any] | None = None
    parameters_hash: str | None = None
    arm: Literal["on", "off", "holdout"] = "on"
    agent: str | None = None
    attempts: int | None = Field(default=None, ge=0)
    outcome: RunOutcome | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    cost: float | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)
    counters: dict[str, int] = Field(default_factory=dict)


class Run(RunIn):
    """A run as the ledger has it."""

    run_id: str
    opened_at: datetime
    closed_at: datetime | None = None


class BlueprintName(Wire):
    """A Blueprint's identity in the ledger."""

    namespace: str
    name: str


class Interval(Wire):
    """A 95 % interval of a rate."""

    low: float
    high: float


class Counts(Wire):
    """Runs by what became of them. uses = running + succeeded + failed + excluded."""

    uses: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    excluded: int = 0
    success_rate: float | None = None
    interval: Interval | None = None


class RevisionStats(Counts):
    """The counts of one revision."""

    revision: int


class BlueprintStats(Counts):
    """What the ledger knows of one Blueprint. All zero for one that it never saw."""

    namespace: str
    name: str
    last_used: datetime | None = None
    median_duration_s: float | None = None
    avg_cost: float | None = None
    last_revision: int | None = None
    revisions: tuple[RevisionStats, ...] = ()


class ScopeStats(Wire):
    """What the store holds in exactly one scope; ancestors and descendants are not counted."""

    path: str
    facts: int = 0
    recalls: int = 0
    usefulness: float | None = None
    last_write_at: datetime | None = None


class StatsIn(Wire):
    """A batch of questions for the statistics of Blueprints and scopes."""

    blueprints: tuple[BlueprintName, ...] = Field(default=(), max_length=2000)
    scopes: tuple[str, ...] = Field(default=(), max_length=2000)


class Stats(Wire):
    """The answers, in the order of the questions."""

    blueprints: tuple[BlueprintStats, ...] = ()
    scopes: tuple[ScopeStats, ...] = ()


class ExtractionIn(Wire):
    """Ask for the extraction of a closed run, once per run. `max_facts` 0 to 7."""

    run_id: str
    max_facts: int = Field(default=7, ge=0, le=7)


class Extraction(Wire):
    """State of a run's extraction. `reason` says in words why there are fewer than three facts."""

    run_id: str
    state: Literal["pending", "running", "done", "failed"]
    facts: tuple[str, ...] = ()
    reason: str | None = None
    attempts: int = 0


class Retention(Wire):
    """Bounds of a scope's live facts; absent means unbounded."""

    max_facts: int | None = Field(default=None, ge=1)
    ttl_days: float | None = Field(default=None, gt=0)
    half_life_days: float | None = Field(default=None, gt=0)


class Promotion(Wire):
    """When a fact of this scope is copied one level up."""

    policy: Literal["Manual", "Automatic"] = "Manual"
    min_missions: int = Field(default=3, ge=1)
    min_confidence: float = Field(default=0.7, ge=0, le=1)


class Injection(Wire):
    """What is put in front of a cell when a mission starts."""

    enabled: bool = True
    max_facts: int = Field(default=20, ge=0, le=100)
    max_tokens: int = Field(default=1500, ge=0, le=100_000)
    min_confidence: float = Field(default=0.5, ge=0, le=1)


class ExtractionConfig(Wire):
    """Whether and how facts are extracted in this scope."""

    enabled: bool = True
    max_facts: int = Field(default=7, ge=0, le=7)
    model: str | None = None


class ScopeConfig(Wire):
    """How knowledge behaves in one scope. Defaults hold for a scope that nobody declared."""

    read_only: bool = False
    inherit: bool = True
    retention: Retention = Retention()
    promotion: Promotion = Promotion()
    injection: Injection = Injection()
    extraction: ExtractionConfig = ExtractionConfig()


class ScopeOut(Wire):
    """A scope with its configuration and its statistics."""

    path: str
    declared: bool
    config: ScopeConfig
    stats: ScopeStats


class Grant(Wire):
    """Verbs on one scope, or on it and all below it."""

    scope: str
    subtree: bool = False
    verbs: tuple[Verb, ...]


class Subject(Wire):
    """The Kubernetes user that a principal is: its name and the ServiceAccount's UID."""

    username: str
    uid: str | None = None


class PrincipalIn(Wire):
    """Register who a caller is. Repeating it is harmless; another UID for the same username replaces it."""

    name: str
    type: Literal["human", "agent", "system"]
    subject: Subject
    home: str
    grants: tuple[Grant, ...] = Field(default=(), max_length=64)
    realm_uid: str | None = Field(default=None, description="UID of the home scope's namespace")


class StoreId(Wire):
    """Identity of the store; `epoch` changes when registrations must be repeated, as after a restore."""

    id: str
    epoch: int


class WhoAmI(Wire):
    """The caller as the service sees it."""

    name: str
    type: Literal["human", "agent", "system"]
    home: str
    grants: tuple[Grant, ...]
    mode: Literal["kubernetes", "token", "none"]
    store: StoreId


class Health(Wire):
    """`ok` when the store answers."""

    status: Literal["ok", "unavailable"]
    detail: str | None = None


class ProblemViolation(Wire):
    """One thing that is wrong with a body."""

    path: str
    message: str


class Problem(Wire):
    """RFC 9457 problem details. `code` is one of `knowledge_client.errors.Code`."""

    type: str = "about:blank"
    title: str
    status: int
    code: str
    detail: str
    violations: tuple[ProblemViolation, ...] = ()
