"""The ledger's runs and the episodes that belong to them."""

from __future__ import annotations

import operator
from typing import Any, Literal

from pydantic import Field

from knowledge_client.base_model import SafeInt, UtcDatetime, WireModel
from knowledge_client.models.facts import Ref

RunOutcome = Literal[
    "Succeeded", "Failed", "TimedOut", "BudgetExceeded", "Cancelled", "InfrastructureFailed"
]
EpisodeType = Literal[
    "message",
    "decision",
    "tool_call",
    "tool_result",
    "error",
    "check",
    "retry",
    "approval",
    "review",
]
_MAX_COST = 10**15  # as in the operator's annotations; no run reaches it


class EpisodeIn(WireModel):
    """One raw line of a run's record.

    Keyed by run, attempt and content, so that repeats are harmless.
    """

    attempt: SafeInt = Field(default=1, ge=1)
    type: EpisodeType
    content: str = Field(min_length=1, max_length=8192)
    error_signature: str | None = Field(default=None, max_length=512)
    refs: tuple[Ref, ...] = Field(default=(), max_length=32)
    at: UtcDatetime | None = None


class EpisodesIn(WireModel):
    """Episodes of one run, in order.

    `namespace` is the realm of the run, by default the caller's own.
    """

    run_id: str
    namespace: str | None = Field(default=None, max_length=63)
    episodes: tuple[EpisodeIn, ...] = Field(min_length=1, max_length=200)


class EpisodesAccepted(WireModel):
    """How many episodes were new, and how many existed already."""

    accepted: int
    duplicates: int


class Episode(EpisodeIn):
    """An episode as recorded; `seq` orders those of one run from 1."""

    seq: int
    run_id: str
    actor: str


class EpisodePage(WireModel):
    """The episodes of one run, by `seq`. `cursor` is opaque, and absent on the last page."""

    episodes: tuple[Episode, ...]
    cursor: str | None = None


class RunIn(WireModel):
    """One use of a Blueprint from start to end.

    Opening twice merges; another outcome at closing is 409. The arm is that of the first report.
    """

    kind: Literal["mission", "session", "import"] = "mission"
    namespace: str = Field(max_length=63)
    scope: str = Field(description="formation scope path in which the run works")
    blueprint: str | None = Field(default=None, max_length=253)
    revision: SafeInt | None = Field(default=None, ge=1)
    instance: str | None = Field(default=None, max_length=253)
    mission: str | None = Field(default=None, max_length=253)
    formation: str | None = Field(
        default=None,
        max_length=253,
        exclude_if=operator.not_,
        description="name of the formation whose cells work for the run",
    )
    objective: str | None = Field(default=None, max_length=8192)
    parameters: dict[str, Any] | None = None
    parameters_hash: str | None = Field(default=None, max_length=128)
    arm: Literal["on", "off", "holdout"] = "on"
    agent: str | None = Field(default=None, max_length=253)
    attempts: SafeInt | None = Field(default=None, ge=0)
    outcome: RunOutcome | None = None
    started_at: UtcDatetime | None = None
    finished_at: UtcDatetime | None = None
    cost: float | None = Field(default=None, ge=0, le=_MAX_COST, allow_inf_nan=False)
    tokens: SafeInt | None = Field(default=None, ge=0)
    counters: dict[str, SafeInt] = Field(default_factory=dict)


class Run(RunIn):
    """A run of the ledger. Earlier versions stored larger costs."""

    run_id: str
    cost: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    opened_at: UtcDatetime
    closed_at: UtcDatetime | None = None


class RunDetail(Run):
    """A run with the facts that its agents stored in it, as far as the caller may read them.

    `remembered` lists live facts, newest first, once the run has ended; extracted facts are those
    of its extraction.
    """

    remembered: tuple[str, ...] = ()


class RunPage(WireModel):
    """A page of runs, newest first. `cursor` is opaque, and absent on the last page."""

    runs: tuple[Run, ...]
    cursor: str | None = None
