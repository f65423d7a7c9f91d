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
from knowledge_service.domain.run_merge import RunKey
from knowledge_service.ports.queries import (
    Actor,
    IdempotencyKey,
    RunListing,
)


class RunStore(Protocol):
    """The ledger: runs, their episodes, and what they count up to."""

    def put_run(self, run_id: str, run: RunIn, *, actor: Actor) -> Run:
        """Open, merge or close a run. Closing credits the facts that were in front of it, once.

        Raises:
            RunOutcomeConflict: it is closed with another outcome.
            Conflict: it belongs to another namespace or scope.
        """
        ...

    def run(self, key: RunKey, view: View) -> Run | None:
        """Return a run whose scope is visible."""
        ...

    def runs_named(self, run_id: str, view: View) -> tuple[Run, ...]:
        """Return the visible runs of an id: at most one in each realm, by scope."""
        ...

    def list_runs(self, listing: RunListing) -> tuple[Run, ...]:
        """Return a page of visible runs, the one opened last first."""
        ...

    def add_episodes(
        self,
        key: RunKey,
        episodes: Sequence[EpisodeIn],
        *,
        actor: Actor,
        idempotency_key: IdempotencyKey | None = None,
    ) -> EpisodesAccepted:
        """Append episodes in order; equal ones of the same attempt are counted as duplicates.

        Raises:
            NotFound: no such run.
            QuotaExceeded: the run's record is full.
        """
        ...

    def episodes(
        self, key: RunKey, *, after_sequence: int = 0, limit: int | None = None
    ) -> tuple[Episode, ...]:
        """Return a run's episodes by `seq`, those after `after`, at most `limit`."""
        ...

    def blueprint_stats(
        self, names: Sequence[BlueprintName], view: View
    ) -> tuple[BlueprintStats, ...]:
        """Count visible runs, in the order of the names."""
        ...

    def parameter_stats(self, name: BlueprintName, view: View) -> tuple[ParameterStats, ...]:
        """Count one Blueprint's visible runs by the value of each parameter."""
        ...


class ExtractionStore(Protocol):
    """The durable job of each run."""

    def accept_extraction(self, key: RunKey, max_facts: int, *, actor: Actor) -> Extraction:
        """Record the wish for an extraction; a repeat returns the state of the first."""
        ...

    def extraction(self, key: RunKey) -> Extraction | None:
        """Return the state of a run's extraction."""
        ...

    def extraction_limit(self, key: RunKey) -> int:
        """Return how many facts were asked for at most."""
        ...

    def open_extractions(self, limit: int) -> tuple[tuple[RunKey, Extraction], ...]:
        """Return what is pending, or was running when a process died; the oldest first.

        Those of retired realms are left out.
        """
        ...

    def begin_extraction(self, key: RunKey) -> Extraction:
        """Count one more attempt and say `running`."""
        ...

    def earlier_signatures(self, key: RunKey, signatures: Sequence[str]) -> Mapping[str, int]:
        """Count episodes with these signatures in earlier runs of the same scope."""
        ...

    def finish_extraction(
        self, key: RunKey, facts: Sequence[NewFact], reason: str | None, *, actor: Actor
    ) -> Extraction:
        """Store the facts and the state `done` together; does nothing when it is done already.

        A fact whose (subject, predicate) is live in the scope confirms that one; one whose equal or
        key was retracted there is left out, and the reason says so.
        """
        ...

    def fail_extraction(self, key: RunKey, reason: str, *, retry: bool) -> Extraction:
        """Record why an attempt failed; without `retry` the state becomes `failed`."""
        ...
