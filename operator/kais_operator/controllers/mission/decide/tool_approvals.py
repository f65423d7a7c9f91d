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
    """What the annotations decide about waiting calls; `remark` says why one is ignored."""

    about_calls: tuple[ApprovalDecision, ...] = ()
    remark: str | None = None


def read(observed: MissionObserved, waiting: tuple[CallApproval, ...]) -> Decisions:
    """Return what a person decided about waiting calls."""
    annotations = observed.mission.metadata.annotations
    text = annotations.get(labels.APPROVAL)
    if text is None:
        return Decisions()
    try:
        written = approvals.parse_decisions(text, annotations.get(labels.APPROVAL_BY, ""))
    except ValueError as exc:
        return Decisions(remark=f"{labels.APPROVAL} is ignored: {exc}")
    if not observed.has_review_policy:
        written = tuple(replace(each, by=UNKNOWN_AUTHOR) for each in written)
    hashes = {each.call: each.sha256 for each in waiting}
    known = [each for each in written if each.call in hashes]  # others are decided, or earlier
    other = [each.call for each in known if each.sha256 != hashes[each.call]]
    remark = f"{labels.APPROVAL} is ignored: call {other[0]} has other arguments" if other else None
    return Decisions(tuple(each for each in known if each.call not in other), remark)


def waiting_calls(reported: tuple[CallApproval, ...]) -> tuple[CallApproval, ...]:
    """Return the calls without a decision."""
    return tuple(each for each in reported if each.outcome is None)
