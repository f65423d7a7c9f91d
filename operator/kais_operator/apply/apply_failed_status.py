"""Reports that the API server refused a child, in the conditions of its owner.

If a quota or validation refuses a child, the reconcile ends, so the decided conditions would not
show the reason. The refusal replaces the condition about writing, and the summary, which is the
last condition. A refusal that does not end the reconcile, because other writers changed the object,
is appended to the message about that.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from kais import conditions
from kais_operator.planning.plan import Action, Body, EmitEvent

_ABOUT_WRITING = (conditions.ConditionType.APPLIED, conditions.ConditionType.STARTED)
_LIMIT = 4096


def with_refusal(
    status: Body | None, observed: Body, *, message: str, now: datetime
) -> Body | None:
    """Return the decided status with the refusal; None if no status was decided.

    A mission that has started stays Started; then only its summary has the refusal.
    """
    if status is None or not status.get("conditions"):
        return status
    decided = list(status["conditions"])
    previous = {c["type"]: c for c in (observed.get("status") or {}).get("conditions") or ()}
    summary = decided[-1]["type"]
    changed = [
        _refused(condition, previous.get(condition["type"]), message=message, now=now)
        if condition["type"] == summary or _is_about_writing(condition, previous)
        else condition
        for condition in decided
    ]
    return {**status, "conditions": changed}


def events_to_report(actions: Sequence[Action], status: Body | None) -> tuple[EmitEvent, ...]:
    """Return the Events about conditions that the refusal did not replace.

    The status has these conditions now, so no later reconcile decides their Events again.
    """
    kept = (status or {}).get("conditions") or ()
    return tuple(
        action
        for action in actions
        if isinstance(action, EmitEvent)
        and any(
            condition["reason"] == action.reason and condition["message"].startswith(action.message)
            for condition in kept
        )
    )


def append_refusal(status: Body | None, refusal: str | None) -> Body | None:
    """Append a refusal to the message about failed writes, wherever that message is repeated."""
    decided = (status or {}).get("conditions") or ()
    failed = next((c for c in decided if c["type"] == conditions.ConditionType.APPLIED), None)
    if status is None or refusal is None or failed is None or failed["status"] != "False":
        return status
    added = f"; the API server refuses to apply what is declared: {refusal}"
    changed = [
        {**condition, "message": f"{condition['message']}{added}"[:_LIMIT]}
        if condition["reason"] == failed["reason"]
        and condition["message"].endswith(failed["message"])
        else condition
        for condition in decided
    ]
    return {**status, "conditions": changed}


def _is_about_writing(condition: Body, previous: dict[str, Body]) -> bool:
    type_ = condition["type"]
    if type_ == conditions.ConditionType.STARTED:
        return previous.get(type_, {}).get("status") != "True"
    return type_ in _ABOUT_WRITING


def _refused(condition: Body, previous: Body | None, *, message: str, now: datetime) -> Body:
    was_false = previous is not None and previous["status"] == "False"
    at = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        **condition,
        "status": "False",
        "reason": conditions.Reason.APPLY_FAILED.value,
        "message": message[:_LIMIT],
        "lastTransitionTime": previous["lastTransitionTime"] if previous and was_false else at,
    }
