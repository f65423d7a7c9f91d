"""Merges reports about a run, in whatever order they arrive. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from kais import outcomes
from knowledge_client.models import Fact, Run, RunIn
from knowledge_service.domain.access_control import PrincipalType, realm_of
from knowledge_service.errors import InvalidBody

# Both bounds of counters are arbitrary: the operator writes one.
_MAX_COUNTERS = 64
MAX_COUNTER_NAME = 64
_IDENTITY = ("kind", "namespace", "scope")


class RunKey(NamedTuple):
    """What names a run: an id is unique in its realm, and another realm may have the same."""

    realm: str
    run_id: str


def key_of(run: Run) -> RunKey:
    """Return what names a run of the ledger."""
    return RunKey(realm_of(run.scope), run.run_id)


class RunMismatch(Exception):
    """The run is another one: `field` has the value `recorded`."""

    def __init__(self, field: str, recorded: str) -> None:
        super().__init__(f"{field} is {recorded}")
        self.field = field
        self.recorded = recorded


def merge_run(run_id: str, old: Run | None, new: RunIn, now: datetime) -> Run:
    """Return the run with what is new; what is absent in `new` stays as it was.

    A closed run takes what was missing, as when its opening comes late, and never another outcome.

    Raises:
        Differs: its kind, namespace, scope or recorded outcome is another.
        InvalidBody: it would have too many counters.
    """
    changes = new.model_dump(exclude_unset=True, exclude_none=True)
    if old is None:
        _require_few_counters(run_id, len(new.counters), allowed=0)
        merged = new.model_dump() | {"run_id": run_id, "opened_at": now, "closed_at": None}
    else:
        _require_same_run(old, new)
        merged = old.model_dump() | _allowed(old, changes)
        merged["counters"] = old.counters | new.counters
        # A run that was stored with more still takes what adds none.
        _require_few_counters(run_id, len(merged["counters"]), allowed=len(old.counters))
    if merged["outcome"] is not None and merged["closed_at"] is None:
        merged["closed_at"] = now
    return Run.model_validate(merged)


def _require_few_counters(run_id: str, count: int, *, allowed: int) -> None:
    if count > max(allowed, _MAX_COUNTERS):
        raise InvalidBody(f"run {run_id} would have {count} counters, at most {_MAX_COUNTERS}")


def _require_same_run(old: Run, new: RunIn) -> None:
    for field in _IDENTITY:
        if getattr(old, field) != getattr(new, field):
            raise RunMismatch(field, getattr(old, field))
    if old.outcome is not None and new.outcome is not None and old.outcome != new.outcome:
        raise RunMismatch("outcome", old.outcome)


def _allowed(old: Run, changes: dict[str, object]) -> dict[str, object]:
    if old.closed_at is None:
        return changes
    # A closed run is settled: a late opening only fills what is missing.
    return {name: value for name, value in changes.items() if getattr(old, name) in (None, {})}


def usage_kind_of_outcome(run: Run, closed_by: PrincipalType) -> str | None:
    """Return the usage kind that the run's facts earn.

    None while open, for excluded outcomes, and for what an agent closed: it would praise its own
    facts, and how runs end is not an agent's to say.
    """
    if run.outcome is None or closed_by == "agent":
        return None
    outcome = outcomes.Outcome(run.outcome)
    if outcomes.is_excluded(outcome):
        return None
    return "succeeded" if outcomes.is_success(outcome) else "failed"


def is_own(run_id: str, fact: Fact) -> bool:
    """Tell whether a fact was learnt in the run: its outcome says nothing about that one."""
    return any(ref.type == "run" and ref.id == run_id for ref in fact.source.refs)


def duration_s(run: Run) -> float | None:
    """Return how long the run took by its own times; None unless it has both."""
    if run.started_at is None or run.finished_at is None:
        return None
    return (run.finished_at - run.started_at).total_seconds()
