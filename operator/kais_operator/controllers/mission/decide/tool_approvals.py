"""Tool calls of an agent that wait for a person: the decision in the annotations, passed on once.

The cell stores the first decision about a call. So the decision is sent while the cell reports the
call as waiting, and nothing else has to be remembered.
"""

from __future__ import annotations

from kais import approvals, labels
from kais.approvals import ApprovalDecision, CallApproval
from kais.resources.mission import Mission


def decision_for(
    mission: Mission, waiting: tuple[CallApproval, ...]
) -> ApprovalDecision | str | None:
    """Return what a person decided about a waiting call.

    Returns:
        The decision, a message why the annotation is ignored, or None without one.
    """
    annotations = mission.metadata.annotations
    text = annotations.get(labels.APPROVAL)
    if text is None:
        return None
    try:
        decision = approvals.parse_decision(text, annotations.get(labels.APPROVAL_BY, ""))
    except ValueError as exc:
        return f"{labels.APPROVAL} is ignored: {exc}"
    call = next((each for each in waiting if each.call == decision.call), None)
    if call is None:
        return None  # it is decided, or belongs to an earlier attempt
    if call.sha256 != decision.sha256:
        return f"{labels.APPROVAL} is ignored: call {call.call} has other arguments"
    return decision


def waiting_calls(reported: tuple[CallApproval, ...]) -> tuple[CallApproval, ...]:
    """Return the calls without a decision."""
    return tuple(each for each in reported if each.outcome is None)
