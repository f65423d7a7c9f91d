"""Merges reports about a run, in whatever order they arrive, and bounds its counters. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from kais import outcomes
from knowledge_client.models import Fact, Run, RunIn
from knowledge_service.domain.access_control import realm_of
from knowledge_service.domain.principals import PrincipalType
from knowledge_service.errors import Forbidden, InvalidBody

# An arbitrary bound: the operator writes one counter.
_MAX_COUNTERS = 64
MAX_COUNTER_NAME = 64
_IDENTITY = ("kind", "namespace", "scope")


class RunKey(NamedTuple):
    """The identity of a run: ids are unique in a realm, and two realms may use the same id."""

    realm: str
    run_id: str


def key_of(run: Run) -> RunKey:
    """Return the key of a run of the ledger."""
    return RunKey(realm_of(run.scope), run.run_id)


class RunMismatch(Exception):
    """The run differs from the recorded one, where `field` has the value `recorded`."""

    def __init__(self, field: str, recorded: str) -> None:
        super().__init__(f"{field} is {recorded}")
        self.field = field
        self.recorded = recorded


def merge_run(run_id: str, old: Run | None, new: RunIn, now: datetime) -> Run:
    """Return the run with the new values; values that `new` lacks do not change.

    The arm never changes, so that no run is moved between the sides of a comparison.
    A closed run accepts missing values, as when its opening arrives late, but never another
    outcome.

    Raises:
        RunMismatch: kind, namespace, scope or recorded outcome differs.
        InvalidBody: the run would have too many counters.
    """
    changes = new.model_dump(exclude_unset=True, exclude_none=True)
    if old is None:
        _require_few_counters(run_id, len(new.counters), allowed=0)
        merged = new.model_dump() | {"run_id": run_id, "opened_at": now, "closed_at": None}
    else:
        _require_same_run(old, new)
        merged = old.model_dump() | _allowed(old, changes) | {"arm": old.arm}
        merged["counters"] = old.counters | new.counters
        # A run stored with more counters still accepts a report that adds none.
        _require_few_counters(run_id, len(merged["counters"]), allowed=len(old.counters))
    if merged["outcome"] is not None and merged["closed_at"] is None:
        merged["closed_at"] = now
    return Run.model_validate(merged)


def is_of_agent(run: Run, *, by_agent: bool | None) -> bool:
    """Return whether an agent opened a run; statistics of Blueprints do not count such runs.

    `by_agent` is None for runs from before this was recorded. Of these, the sessions in the scope
    of a cell are of agents: the operator opens its own in the scope of the formation.
    """
    if by_agent is None:
        return run.kind != "mission" and "/cell:" in run.scope
    return by_agent


def require_changeable(
    run: Run, *, by_agent: bool | None, name: str, changed_by: PrincipalType
) -> None:
    """Check that a caller may change a run that it may write to.

    Raises:
        Forbidden: an agent would change what statistics count.
    """
    if changed_by == "agent" and not is_of_agent(run, by_agent=by_agent):
        raise Forbidden(
            f"{name} is an agent and changes only sessions that an agent opened;"
            f" report what happens in run {run.run_id} as episodes"
        )


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
    # A closed run is settled: a late opening only fills in missing values.
    return {name: value for name, value in changes.items() if getattr(old, name) in (None, {})}


def usage_kind_of_outcome(run: Run, closed_by: PrincipalType) -> str | None:
    """Return the usage kind to count for the facts that the run recalled.

    None while the run is open, for excluded outcomes, and for a run that an agent closed: agents
    must not rate their own facts, and do not decide how runs end.
    """
    if run.outcome is None or closed_by == "agent":
        return None
    outcome = outcomes.Outcome(run.outcome)
    if outcomes.is_excluded(outcome):
        return None
    return "succeeded" if outcomes.is_success(outcome) else "failed"


def is_own(run_id: str, fact: Fact) -> bool:
    """Return whether a fact stems from the run; then the run's outcome is no evidence for it."""
    return any(ref.type == "run" and ref.id == run_id for ref in fact.source.refs)


def duration_s(run: Run) -> float | None:
    """Return the run's duration in seconds, by its own times; None unless it has both."""
    if run.started_at is None or run.finished_at is None:
        return None
    return (run.finished_at - run.started_at).total_seconds()
