"""Conditions. Each reconcile computes the whole set, so that no stale condition remains.

A decision lists the desired conditions; `merge` adds generation and transition time. Only a change
of the status changes the time. The summary condition is computed from the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Literal

from kais.reasons import Reason
from kais.resources.base import Condition

__all__ = [
    "Condition",
    "ConditionSet",
    "ConditionType",
    "DesiredCondition",
    "Reason",
    "false",
    "merge",
    "summary",
    "true",
    "unknown",
]

_MESSAGE_LIMIT = 4096  # the bound of the field in the CRDs


class ConditionType(StrEnum):
    """The condition types of all kinds."""

    APPLIED = "Applied"
    BLUEPRINT_RESOLVED = "BlueprintResolved"
    CELLS_READY = "CellsReady"
    CHECKS_PASSED = "ChecksPassed"
    COMPATIBLE = "Compatible"
    COMPILED = "Compiled"
    CONFIGURED = "Configured"
    KNOWLEDGE_EXTRACTED = "KnowledgeExtracted"
    MISSION_FINISHED = "MissionFinished"
    PARAMETERS_VALID = "ParametersValid"
    POD_READY = "PodReady"
    READY = "Ready"
    RECORDED = "Recorded"
    REGISTERED = "Registered"
    RENDERED = "Rendered"
    ROLLED_OUT = "RolledOut"
    STARTED = "Started"
    STORE_REACHABLE = "StoreReachable"
    SUCCEEDED = "Succeeded"


@dataclass(frozen=True)
class DesiredCondition:
    """A condition as a decision wants it, before it has a time."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: Reason
    message: str


def true(type_: str, reason: Reason, message: str) -> DesiredCondition:
    """Return or set a condition that is True."""
    return DesiredCondition(type_, "True", reason, message)


def false(type_: str, reason: Reason, message: str) -> DesiredCondition:
    """Return or set a condition that is False."""
    return DesiredCondition(type_, "False", reason, message)


def unknown(type_: str, reason: Reason, message: str) -> DesiredCondition:
    """Return a condition that is Unknown."""
    return DesiredCondition(type_, "Unknown", reason, message)


def summary(
    conditions: Sequence[DesiredCondition], *, type_: str = ConditionType.READY, message: str
) -> DesiredCondition:
    """Return the summary: True with `message` if all are True, else that of the first other one.

    False conditions take precedence over Unknown ones, because they need action.
    """
    for status in ("False", "Unknown"):
        unmet = next((w for w in conditions if w.status == status), None)
        if unmet is not None:
            summary_message = f"{unmet.type}: {_message_of(unmet)}"
            return DesiredCondition(type_, unmet.status, unmet.reason, summary_message)
    return true(type_, Reason.READY, message)


def merge(
    previous: Sequence[Condition],
    desired: Sequence[DesiredCondition],
    *,
    generation: int,
    now: datetime,
) -> list[Condition]:
    """Return the desired conditions, with the previous times unless a status changed.

    Conditions that are not desired are dropped. Times are whole seconds, as the API server stores
    them, so that a later read returns what was written.
    """
    previous_by_type = {condition.type: condition for condition in previous}
    at = now.astimezone(UTC).replace(microsecond=0)
    return [
        _with_transition_time(previous_by_type.get(w.type), w, generation=generation, at=at)
        for w in desired
    ]


def _with_transition_time(
    previous: Condition | None, desired: DesiredCondition, *, generation: int, at: datetime
) -> Condition:
    is_unchanged = previous is not None and previous.status == desired.status
    return Condition(
        type=desired.type,
        status=desired.status,
        reason=desired.reason.value,
        message=_message_of(desired),
        observed_generation=generation,
        last_transition_time=previous.last_transition_time if previous and is_unchanged else at,
    )


def _message_of(desired: DesiredCondition) -> str:
    text = desired.message.strip() or desired.reason.meaning
    return text if len(text) <= _MESSAGE_LIMIT else f"{text[: _MESSAGE_LIMIT - 1]}…"


class ConditionSet:
    """Collects the conditions of one reconcile, in order.

    Setting a type again replaces the earlier condition and keeps its position.
    """

    def __init__(self) -> None:
        self._wanted: dict[str, DesiredCondition] = {}

    def true(self, type_: str, reason: Reason, message: str) -> None:
        """Return or set a condition that is True."""
        self._wanted[type_] = true(type_, reason, message)

    def false(self, type_: str, reason: Reason, message: str) -> None:
        """Return or set a condition that is False."""
        self._wanted[type_] = false(type_, reason, message)

    def unknown(self, type_: str, reason: Reason, message: str) -> None:
        """Set a condition to Unknown."""
        self._wanted[type_] = unknown(type_, reason, message)

    def is_true(self, type_: str) -> bool:
        """Whether the condition of that type is True."""
        condition = self._wanted.get(type_)
        return condition is not None and condition.status == "True"

    def summarise(self, message: str, *, type_: str = ConditionType.READY) -> None:
        """Add the summary of the conditions so far; `message` is used when all are True."""
        conditions = [w for w in self._wanted.values() if w.type != type_]
        self._wanted.pop(type_, None)
        self._wanted[type_] = summary(conditions, type_=type_, message=message)

    def desired(self) -> list[DesiredCondition]:
        """Return all conditions, in order."""
        return list(self._wanted.values())

    def merge(
        self, previous: Sequence[Condition], *, generation: int, now: datetime
    ) -> list[Condition]:
        """Return the conditions with transition times; see `merge` of this module."""
        return merge(previous, self.desired(), generation=generation, now=now)
