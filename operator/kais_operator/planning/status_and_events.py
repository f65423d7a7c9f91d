"""Build statuses as the API server stores them, and Events on transitions.

Every reconcile computes the whole status. Unchanged parts must be exactly equal, or an idle
operator would write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kais import conditions, labels
from kais.conditions import DesiredCondition
from kais.reasons import WARNING_REASONS, Reason
from kais.resources.base import Condition, Resource, Status
from kais_operator.planning import finalizers
from kais_operator.planning.plan import Body, EmitEvent, Plan

_ORDINARY = frozenset({Reason.RETRYING})
"""Warning reasons that need no action: a Mission with several attempts expects one to fail."""

SUSPENDED = f"nothing is written while {labels.RECONCILE} is {labels.RECONCILE_SUSPENDED}"

_RETRY_INTERVAL = timedelta(seconds=30)
_EVENT_LIMIT = 1024  # the API server's limit for an Event's message


def body_of(status: Status) -> Body:
    """Return a status as it is written: without empty lists and maps, which no reader misses."""
    return _without_empty(status.to_dict())


def _without_empty(body: Body) -> Body:
    nonempty: Body = {}
    for key, value in body.items():
        cleaned: Any = _without_empty(value) if isinstance(value, dict) else value
        if cleaned not in ([], {}):
            nonempty[key] = cleaned
    return nonempty


def with_transition_times(
    resource: Resource, desired: Sequence[DesiredCondition], now: datetime
) -> list[Condition]:
    """Merge desired conditions with those of the object, which keeps their transition times."""
    previous = resource.status.conditions
    return conditions.merge(previous, desired, generation=resource.metadata.generation, now=now)


def transition_events(
    resource: Resource, current: Sequence[Condition], *, types: Sequence[str]
) -> tuple[EmitEvent, ...]:
    """Return Events for conditions of these types with a new status or a new warning reason.

    A condition that is False at first, or changes from Unknown to False, emits an Event only with a
    reason in `WARNING_REASONS`: that work is not done yet is no news. A condition that is Unknown
    emits one only when such a reason is new.
    """
    emitted = []
    for condition in current:
        if condition.type in types and _is_transition(
            resource.condition(condition.type), condition
        ):
            is_warning = condition.reason in WARNING_REASONS
            emitted.append(
                EmitEvent(
                    "Warning" if is_warning and condition.reason not in _ORDINARY else "Normal",
                    condition.reason,
                    condition.message[:_EVENT_LIMIT],
                )
            )
    return tuple(dict.fromkeys(emitted))  # a summary may repeat another condition


def _is_transition(previous: Condition | None, current: Condition) -> bool:
    if previous is None or current.status == "Unknown":
        is_same_reason = previous is not None and previous.reason == current.reason
        return current.status == "True" or (
            current.reason in WARNING_REASONS and not is_same_reason
        )
    if previous.status != current.status:
        is_still_waiting = previous.status == "Unknown" and current.status == "False"
        return not is_still_waiting or current.reason in WARNING_REASONS
    return previous.reason != current.reason and current.reason in WARNING_REASONS


def is_suspended(resource: Resource) -> bool:
    """Whether a user suspended all writes for an object; its deletion is not suspended."""
    return resource.metadata.annotations.get(labels.RECONCILE) == labels.RECONCILE_SUSPENDED


def with_suspension(
    desired: Sequence[DesiredCondition], *, write_condition: str
) -> list[DesiredCondition]:
    """Replace the condition about writes, and the summary, which is the last condition."""
    types = {write_condition, desired[-1].type}
    return [
        conditions.false(condition.type, Reason.SUSPENDED, SUSPENDED)
        if condition.type in types
        else condition
        for condition in desired
    ]


@dataclass(frozen=True)
class InvalidObject:
    """An object that breaks rules which the API server could not check.

    With a reason other than Invalid it may be valid; this cannot be decided now.
    """

    body: Body
    problem: str
    reason: Reason = Reason.INVALID


def invalid_plan(invalid: InvalidObject, *, summary: str, now: datetime) -> Plan:
    """Report an object that breaks rules which the API server could not check.

    If the object is being deleted, only its finalizer is removed, so that it does not block the
    deletion of its namespace. With a reason other than Invalid the object may be valid: its other
    conditions and fields stay, such as the served revision, and the operator tries again.
    """
    body = invalid.body
    kind, metadata = body["kind"], body["metadata"]
    if metadata.get("deletionTimestamp"):
        return Plan(finalizers.release_body(kind, metadata))
    read = [
        Condition.from_dict(condition)
        for condition in (body.get("status") or {}).get("conditions") or ()
    ]
    generation = metadata.get("generation", 0)
    is_invalid = invalid.reason is Reason.INVALID
    message = f"{kind} is invalid: {invalid.problem}" if is_invalid else invalid.problem
    desired = [conditions.false(summary, invalid.reason, message)]
    merged = conditions.merge(read, desired, generation=generation, now=now)
    if is_invalid:
        return Plan(status=body_of(Status(observed_generation=generation, conditions=merged)))
    other_conditions = [condition for condition in read if condition.type != summary]
    status = body_of(
        Status(observed_generation=generation, conditions=(*other_conditions, *merged))
    )
    status = {**(body.get("status") or {}), **status}
    return Plan(status=status, requeue_after=_RETRY_INTERVAL)
