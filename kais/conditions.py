"""Conditions: the whole set is computed anew on each pass, so that nothing stale survives.

A decision lists what it wants to say; `merge` gives each its time and edition. Only a flip of the
status moves the time. The summary is computed from the others and never said on its own.
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
    "Reason",
    "Type",
    "Wanted",
    "false",
    "merge",
    "summary",
    "true",
    "unknown",
]

_MESSAGE_LIMIT = 4096  # the bound of the field in the CRDs


class Type(StrEnum):
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
    STARTED = "Started"
    STORE_REACHABLE = "StoreReachable"
    SUCCEEDED = "Succeeded"


@dataclass(frozen=True)
class Wanted:
    """What a decision says about one condition, before it has a time."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: Reason
    message: str


def true(type_: str, reason: Reason, message: str) -> Wanted:
    """Say that a condition holds."""
    return Wanted(type_, "True", reason, message)


def false(type_: str, reason: Reason, message: str) -> Wanted:
    """Say that a condition does not hold."""
    return Wanted(type_, "False", reason, message)


def unknown(type_: str, reason: Reason, message: str) -> Wanted:
    """Say that it cannot be told yet whether a condition holds."""
    return Wanted(type_, "Unknown", reason, message)


def summary(wanted: Sequence[Wanted], *, type_: str = Type.READY, message: str) -> Wanted:
    """Compute the summary: True with `message` when all are True, else the first trouble's words.

    A False comes before an Unknown, because it is the one to act on.
    """
    for status in ("False", "Unknown"):
        trouble = next((w for w in wanted if w.status == status), None)
        if trouble is not None:
            words = f"{trouble.type}: {_filled(trouble)}"
            return Wanted(type_, trouble.status, trouble.reason, words)
    return true(type_, Reason.READY, message)


def merge(
    previous: Sequence[Condition], wanted: Sequence[Wanted], *, generation: int, now: datetime
) -> list[Condition]:
    """Give each wanted condition its time: the previous one's unless the status flipped.

    What is not wanted any more is gone. Times are whole seconds, as the API server stores them, so
    that what is read back equals what was written.
    """
    known = {condition.type: condition for condition in previous}
    at = now.astimezone(UTC).replace(microsecond=0)
    return [_timed(known.get(w.type), w, generation=generation, at=at) for w in wanted]


def _timed(before: Condition | None, wanted: Wanted, *, generation: int, at: datetime) -> Condition:
    kept = before is not None and before.status == wanted.status
    return Condition(
        type=wanted.type,
        status=wanted.status,
        reason=wanted.reason.value,
        message=_filled(wanted),
        observed_generation=generation,
        last_transition_time=before.last_transition_time if before and kept else at,
    )


def _filled(wanted: Wanted) -> str:
    text = wanted.message.strip() or wanted.reason.meaning
    return text if len(text) <= _MESSAGE_LIMIT else f"{text[: _MESSAGE_LIMIT - 1]}…"


class ConditionSet:
    """Collects what one pass says, in the order in which it is said.

    Saying a type again replaces the earlier word and keeps its place.
    """

    def __init__(self) -> None:
        self._wanted: dict[str, Wanted] = {}

    def true(self, type_: str, reason: Reason, message: str) -> None:
        """Say that a condition holds."""
        self._wanted[type_] = true(type_, reason, message)

    def false(self, type_: str, reason: Reason, message: str) -> None:
        """Say that a condition does not hold."""
        self._wanted[type_] = false(type_, reason, message)

    def unknown(self, type_: str, reason: Reason, message: str) -> None:
        """Say that it cannot be told yet."""
        self._wanted[type_] = unknown(type_, reason, message)

    def is_true(self, type_: str) -> bool:
        """Whether that type was said to hold."""
        said = self._wanted.get(type_)
        return said is not None and said.status == "True"

    def summarise(self, message: str, *, type_: str = Type.READY) -> None:
        """Add the summary of all that was said before; `message` is for the good case."""
        others = [w for w in self._wanted.values() if w.type != type_]
        self._wanted.pop(type_, None)
        self._wanted[type_] = summary(others, type_=type_, message=message)

    def wanted(self) -> list[Wanted]:
        """Everything said, in order."""
        return list(self._wanted.values())

    def merge(
        self, previous: Sequence[Condition], *, generation: int, now: datetime
    ) -> list[Condition]:
        """Give everything said its time; see the function of that name."""
        return merge(previous, self.wanted(), generation=generation, now=now)
