"""Ports for the ledger of runs and the durable extraction jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

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
from knowledge_service.ports.queries import (
    Actor,
    IdempotencyKey,
    RunListing,
)


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
            QuotaExceeded: the run has reached its limit of episodes.
        """
        ...

    def episodes(
        self, key: RunKey, *, after_sequence: int = 0, limit: int | None = None
    ) -> tuple[Episode, ...]:
        """Return at most `limit` episodes with `seq` above `after_sequence`, by `seq`."""
        ...

    def blueprint_stats(
        self, names: Sequence[BlueprintName], view: View
    ) -> tuple[BlueprintStats, ...]:
        """Count visible runs of each Blueprint, in the order of the names."""
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

    def open_extractions(self, limit: int) -> tuple[tuple[RunKey, Extraction], ...]:
        """Return extractions that are pending, or were running when a process died; oldest first.

        Extractions of retired realms are left out.
        """
        ...

    def begin_extraction(self, key: RunKey) -> Extraction:
        """Count one more attempt and set the state to `running`."""
        ...

    def earlier_signatures(self, key: RunKey, signatures: Sequence[str]) -> Mapping[str, int]:
        """Count the episodes with these signatures in earlier runs of the same scope."""
        ...

    def finish_extraction(
        self, key: RunKey, facts: Sequence[NewFact], reason: str | None, *, actor: Actor
    ) -> Extraction:
        """Store the facts and the state `done` together; do nothing when it is `done` already.

        A fact whose (subject, predicate) is live in the scope confirms the live fact. A fact is
        left out when its equal or its key was retracted there, and the stored reason mentions it.
        """
        ...

    def fail_extraction(self, key: RunKey, reason: str, *, retry: bool) -> Extraction:
        """Record why an attempt failed; without `retry` the state becomes `failed`."""
        ...
