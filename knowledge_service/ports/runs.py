"""Ports for the ledger of runs and the durable extraction jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Literal, Protocol

from knowledge_client.models import (
    BlueprintName,
    BlueprintStats,
    Episode,
    EpisodeIn,
    EpisodesAccepted,
    Extraction,
    ParameterStats,
    Run,
    RunIn,
)
from knowledge_service.domain.access_control import View
from knowledge_service.domain.facts import NewFact
from knowledge_service.domain.run_reports import RunKey
from knowledge_service.domain.run_statistics import RunSample
from knowledge_service.ports.queries import (
    Actor,
    IdempotencyKey,
    RunListing,
)

ExtractionQueue = Literal["rules", "model", "all"]
"""Selects open extractions: those by rules alone, those with a chosen model, or all."""


@dataclass(frozen=True, kw_only=True)
class ExtractionCall:
    """The reservation of a call of a model, before the call is sent.

    Attributes:
        cost: what it costs at most, in US dollars; 0 if that is unknown.
        budget: what the calls of the realm may cost since `since`; None: no limit.
    """

    cost: Decimal
    budget: Decimal | None
    since: datetime


class RunStore(Protocol):
    """The run ledger: runs, their episodes and their statistics."""

    def put_run(self, run_id: str, run: RunIn, *, actor: Actor) -> Run:
        """Open, merge or close a run. Closing it credits, once, the facts that it recalled.

        Raises:
            RunOutcomeConflict: the run is closed with another outcome.
            Conflict: the run belongs to another namespace or scope.
        """
        ...

    def run(self, key: RunKey, view: View) -> Run | None:
        """Return a run whose scope is visible."""
        ...

    def runs_named(self, run_id: str, view: View) -> tuple[Run, ...]:
        """Return the visible runs with an id, at most one in each realm, ordered by scope."""
        ...

    def withheld_runs(self, realm: str) -> tuple[Run, ...]:
        """Return the open missions of a realm that get no knowledge, by run-id."""
        ...

    def list_runs(self, listing: RunListing) -> tuple[Run, ...]:
        """Return a page of visible runs; the run opened last comes first."""
        ...

    def add_episodes(
        self,
        key: RunKey,
        episodes: Sequence[EpisodeIn],
        *,
        actor: Actor,
        idempotency_key: IdempotencyKey | None = None,
    ) -> EpisodesAccepted:
        """Append episodes in order; equal episodes of the same attempt count as duplicates.

        Raises:
            NotFound: no such run.
            QuotaExceeded: the run has reached its limit of episodes, which does not bind the
                operator: agents could keep it from recording how their run ended.
        """
        ...

    def episodes(
        self, key: RunKey, *, after_sequence: int = 0, limit: int | None = None
    ) -> tuple[Episode, ...]:
        """Return at most `limit` episodes with `seq` above `after_sequence`, by `seq`.

        None as `limit` is all of them.
        """
        ...

    def blueprint_stats(
        self, names: Sequence[BlueprintName], view: View
    ) -> tuple[BlueprintStats, ...]:
        """Count visible runs of each Blueprint, in the order of the names."""
        ...

    def run_samples(
        self, name: BlueprintName, view: View, *, since: datetime | None = None
    ) -> tuple[RunSample, ...]:
        """Return a Blueprint's visible runs that opened at or after a time, newest first."""
        ...

    def parameter_stats(self, name: BlueprintName, view: View) -> tuple[ParameterStats, ...]:
        """Count the visible runs of one Blueprint by the value of each parameter."""
        ...


class ExtractionStore(Protocol):
    """The durable extraction job of each run."""

    def accept_extraction(self, key: RunKey, max_facts: int, *, actor: Actor) -> Extraction:
        """Record a request for an extraction; a repeat returns the state of the first request."""
        ...

    def extraction(self, key: RunKey) -> Extraction | None:
        """Return the state of a run's extraction."""
        ...

    def extraction_limit(self, key: RunKey) -> int:
        """Return the maximum number of facts that was requested."""
        ...

    def open_extractions(
        self, limit: int, *, queue: ExtractionQueue = "all", due_at: datetime | None = None
    ) -> tuple[tuple[RunKey, Extraction], ...]:
        """Return extractions that are pending, or were running when a process died; oldest first.

        Extractions of retired realms are left out, and with `due_at` those that are retried later.
        """
        ...

    def choose_extraction_model(self, key: RunKey, model: str) -> Extraction:
        """Record the model of an open extraction, which moves it to the other queue."""
        ...

    def reserve_extraction_call(self, key: RunKey, call: ExtractionCall) -> bool:
        """Count a call with its maximum cost; False if the budget does not allow it."""
        ...

    def settle_extraction_call(
        self, key: RunKey, *, reserved: Decimal, cost: Decimal, tokens: tuple[int, int]
    ) -> None:
        """Replace the reserved cost of a call by its real one; add its input and output tokens."""
        ...

    def begin_extraction(self, key: RunKey) -> Extraction:
        """Count one more attempt and set the state to `running`."""
        ...

    def earlier_signatures(self, key: RunKey, signatures: Sequence[str]) -> Mapping[str, int]:
        """Count the episodes with these signatures in earlier runs of the same scope."""
        ...

    def finish_extraction(
        self,
        key: RunKey,
        facts: Sequence[NewFact],
        reason: str | None,
        *,
        actor: Actor,
        drawn_facts: Sequence[NewFact] = (),
    ) -> Extraction:
        """Store the facts and the state `done` together; do nothing when it is `done` already.

        A fact whose (subject, predicate) is live in the scope confirms the live fact. A fact is
        left out when its equal or its key was retracted there, and the stored reason mentions it.
        `drawn_facts` are those of a model: they are stored as if an agent remembered them, so that
        they supersede by (subject, predicate), but never an approved fact.
        """
        ...

    def fail_extraction(self, key: RunKey, reason: str, *, retry: bool) -> Extraction:
        """Record why an attempt failed; without `retry` the state becomes `failed`."""
        ...

    def postpone_extraction(
        self,
        key: RunKey,
        reason: str,
        *,
        retry_at: datetime,
        facts: Sequence[NewFact],
        actor: Actor,
    ) -> Extraction:
        """Store the facts of the rules, and record why the facts of the model come later.

        The extraction names those that were stored. They are stored once: one that is erased
        meanwhile does not return, so the caller does not pass them to `finish_extraction` again.
        """
        ...
