"""Tool calls of an agent that wait for a person: the decisions in the annotations, passed on.

The cell stores the first decision about a call. So a decision is sent while the cell reports the
call as waiting, and nothing else has to be remembered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kais import approvals, labels
from kais.approvals import ApprovalDecision, CallApproval
from kais_operator.controllers.mission.decide.mission_observed import MissionObserved

UNKNOWN_AUTHOR = "a person (not on record: this installation has no admission policy)"
"""The author of a decision whose annotation the API server does not compare with the request."""


@dataclass(frozen=True)
class Decisions:
    """The decisions in annotations about waiting calls; `remark` says why one is ignored."""

    about_calls: tuple[ApprovalDecision, ...] = ()
    remark: str | None = None


def read(observed: MissionObserved, waiting: tuple[CallApproval, ...]) -> Decisions:
    """Return what a person decided about waiting calls."""
    annotations = observed.mission.metadata.annotations
    text = annotations.get(labels.APPROVAL)
    if text is None:
        return Decisions()
    try:
        decisions = approvals.parse_decisions(text, annotations.get(labels.APPROVAL_BY, ""))
    except ValueError as exc:
        return Decisions(remark=f"{labels.APPROVAL} is ignored: {exc}")
    if not observed.has_review_policy:
        decisions = tuple(replace(decision, by=UNKNOWN_AUTHOR) for decision in decisions)
    hashes = {decision.call: decision.sha256 for decision in waiting}
    matching = [
        decision for decision in decisions if decision.call in hashes
    ]  # the others are about calls that do not wait
    mismatched_ids = [
        decision.call for decision in matching if decision.sha256 != hashes[decision.call]
    ]
    remark = (
        f"{labels.APPROVAL} is ignored: call {mismatched_ids[0]} has other arguments"
        if mismatched_ids
        else None
    )
    return Decisions(
        tuple(decision for decision in matching if decision.call not in mismatched_ids), remark
    )


def waiting_calls(reported: tuple[CallApproval, ...]) -> tuple[CallApproval, ...]:
    """Return the calls without a decision."""
    return tuple(call for call in reported if call.outcome is None)
