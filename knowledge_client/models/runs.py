"""The ledger's runs and the episodes that belong to them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from knowledge_client.models.facts import Ref
from knowledge_client.wire import Moment, Whole, Wire

RunOutcome = Literal[
    "Succeeded", "Failed", "TimedOut", "BudgetExceeded", "Cancelled", "InfrastructureFailed"
]
EpisodeType = Literal["message", "decision", "tool_call", "tool_result", "error", "check"]


class EpisodeIn(Wire):
    """One raw line of a run's record.

    Keyed by run, attempt and content, so that repeats are harmless.
    """

    attempt: Whole = Field(default=1, ge=1)
    type: EpisodeType
    content: str = Field(min_length=1, max_length=8192)
    error_signature: str | None = Field(default=None, max_length=512)
    refs: tuple[Ref, ...] = Field(default=(), max_length=32)
    at: Moment | None = None


class EpisodesIn(Wire):
    """Episodes of one run, in order.

    `namespace` says whose run is meant where several realms have one of this id; by default the
    caller's own.
    """

    run_id: str
    namespace: str | None = Field(default=None, max_length=63)
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


class EpisodePage(Wire):
    """The episodes of one run, by `seq`. `cursor` is opaque; absent on the last page."""

    episodes: tuple[Episode, ...]
    cursor: str | None = None


class RunIn(Wire):
    """One use of a Blueprint from start to end.

    Opening twice merges; another outcome at closing is 409.
    """

    kind: Literal["mission", "session", "import"] = "mission"
    namespace: str = Field(max_length=63)
    scope: str = Field(description="formation scope path in which the run works")
    blueprint: str | None = Field(default=None, max_length=253)
    revision: Whole | None = Field(default=None, ge=1)
    instance: str | None = Field(default=None, max_length=253)
    mission: str | None = Field(default=None, max_length=253)
    objective: str | None = Field(default=None, max_length=8192)
    parameters: dict[str, Any] | None = None
    parameters_hash: str | None = Field(default=None, max_length=128)
    arm: Literal["on", "off", "holdout"] = "on"
    agent: str | None = Field(default=None, max_length=253)
    attempts: Whole | None = Field(default=None, ge=0)
    outcome: RunOutcome | None = None
    started_at: Moment | None = None
    finished_at: Moment | None = None
    cost: float | None = Field(default=None, ge=0)
    tokens: Whole | None = Field(default=None, ge=0)
    counters: dict[str, Whole] = Field(default_factory=dict)


class Run(RunIn):
    """A run as the ledger has it."""

    run_id: str
    opened_at: Moment
    closed_at: Moment | None = None


class RunPage(Wire):
    """A page of runs, newest first. `cursor` is opaque; absent on the last page."""

    runs: tuple[Run, ...]
    cursor: str | None = None
