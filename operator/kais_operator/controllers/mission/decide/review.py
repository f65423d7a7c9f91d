"""Parse the annotation `kais.io/review` strictly.

    {"run": "…", "attempt": 2, "verdict": "approve" | "reject", "feedback": "…"}

A verdict is about one piece of work. If it arrives late or stays on the object, it must not apply
to the next attempt or to the same attempt of another run. A verdict without a run applies to the
run in which it is written, because the annotation is removed when a run starts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeGuard

from kais import labels
from kais.agent_results import AgentUsage
from kais.resources.check import ReviewStatus
from kais.resources.mission import Mission
from kais_operator.planning import annotation_values

FEEDBACK_LIMIT = 4096
_RUN_SHOWN = 128
"""Characters of a run-id that a message repeats; those of kais have 36."""
_VERDICTS = {
    "approve": ReviewStatus.APPROVED,
    "approved": ReviewStatus.APPROVED,
    "reject": ReviewStatus.REJECTED,
    "rejected": ReviewStatus.REJECTED,
}
_FORM = '{"attempt": 1, "verdict": "approve" or "reject", "feedback": "…"}'


@dataclass(frozen=True)
class Verdict:
    """A reviewer's verdict on one attempt; `status` is Approved or Rejected.

    `by` is the user who wrote it, if the API server has confirmed the name.
    """

    attempt: int
    status: ReviewStatus
    feedback: str = ""
    by: str | None = field(default=None, compare=False)


@dataclass(frozen=True)
class ReviewMessage:
    """The message that asks a cell to review an attempt; its id follows from run and attempt.

    Attributes:
        pod_uid: the pod of the reviewer that was ready when the message was sent.
        usage: what the review has used; None if nothing was reported.
    """

    pod_uid: str
    sent_at: datetime
    usage: AgentUsage | None = None


def is_wanted(mission: Mission) -> bool:
    """Whether the mission requires a review."""
    review = mission.spec.completion.review
    return review is not None and review.enabled


def annotation_text(mission: Mission) -> str | None:
    """Return the raw value of the annotation."""
    return mission.metadata.annotations.get(labels.REVIEW)


def reviewer(mission: Mission, *, is_recorded: bool) -> str | None:
    """Return the user who wrote the verdict; None unless the API server confirms such names."""
    if not is_recorded:
        return None
    text = mission.metadata.annotations.get(labels.REVIEWED_BY)
    return annotation_values.parse_user_name(text) or None


def read(mission: Mission) -> Verdict | str | None:
    """Parse the annotation.

    Returns:
        The verdict, a message why the annotation is not valid or not about this run, or None
        without an annotation.
    """
    text = annotation_text(mission)
    if text is None:
        return None
    try:
        document = annotation_values.parse(text)
    except ValueError as exc:
        return f"{labels.REVIEW} is not JSON ({exc}); write {_FORM}"
    if not isinstance(document, dict):
        return f"{labels.REVIEW} is not an object; write {_FORM}"
    run_id = document.get("run")
    if run_id is not None and run_id != annotation_values.run_id(mission.metadata.annotations):
        return f"{labels.REVIEW} names run {str(run_id)[:_RUN_SHOWN]} and is ignored"
    return _verdict(document)


def _verdict(document: dict[str, Any]) -> Verdict | str:
    attempt, verdict, feedback = (
        document.get("attempt"),
        document.get("verdict"),
        document.get("feedback", ""),
    )
    if not _is_attempt(attempt):
        return f"{labels.REVIEW} names no attempt; write {_FORM}"
    status = _VERDICTS.get(verdict.lower()) if isinstance(verdict, str) else None
    if status is None:
        return f"{labels.REVIEW} has verdict {verdict!r}; write {_FORM}"
    if not isinstance(feedback, str):
        return f"{labels.REVIEW} has a feedback that is no text; write {_FORM}"
    return Verdict(attempt, status, annotation_values.parse_text(feedback)[:FEEDBACK_LIMIT])


def _is_attempt(attempt: Any) -> TypeGuard[int]:
    is_number = isinstance(attempt, int) and not isinstance(attempt, bool)
    return is_number and 1 <= attempt <= annotation_values.MAX_NUMBER


def remark(mission: Mission, number: int) -> str | None:
    """Return why the annotation is not about attempt `number`; None if it is, or is missing."""
    verdict = read(mission)
    if isinstance(verdict, str):
        return verdict
    if verdict is not None and verdict.attempt != number:
        return f"{labels.REVIEW} refers to attempt {verdict.attempt} and is ignored"
    return None
