"""The exit status of a command that follows a run, from the state of the run. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from kais.conditions import ConditionType
from kais.reasons import Reason
from kais.resources.base import Condition, Resource
from kais_cli.exit_status import ExitStatus, of_outcome
from kais_cli.runs import progress

_PERMANENT_REASONS = frozenset(
    {
        Reason.PARAMETERS_INVALID, Reason.UNKNOWN_PARAMETER, Reason.RENDER_FAILED,
        Reason.BLUEPRINT_NOT_FOUND, Reason.REVISION_NOT_FOUND, Reason.NAME_TAKEN,
    }
)  # fmt: skip
"""Reasons of an instance that do not resolve by waiting."""


def exit_status_of(state: progress.RunState) -> ExitStatus | None:
    """Return the exit status of a run; None while it continues.

    A run without a mission succeeds when its cells are ready.
    """
    if state.outcome is not None:
        return of_outcome(state.outcome)
    if state.is_deleted:
        return ExitStatus.CANCELLED
    instance = state.instance
    if instance is None:
        return None
    if any(c.reason in _PERMANENT_REASONS for c in _current_failures(instance)):
        return ExitStatus.FAILED
    finished = instance.condition(ConditionType.MISSION_FINISHED)
    has_no_mission = finished is not None and finished.reason == Reason.NO_MISSION
    return (
        ExitStatus.SUCCEEDED
        if has_no_mission and instance.is_true(ConditionType.CELLS_READY)
        else None
    )


def _current_failures(resource: Resource) -> Iterator[Condition]:
    generation = resource.metadata.generation
    return (c for c in progress.failed_conditions(resource) if c.observed_generation == generation)
