"""One attempt as its Mission records it, for the time when Jobs and pods are gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from kais import agent_results, approvals
from kais.agent_results import AgentUsage, Artifact, FailureClass
from kais.approvals import CallApproval
from kais.resources.check import CheckStatus, ReviewStatus
from kais.resources.field_types import rfc3339
from kais_operator.controllers.mission.decide import mind_usage
from kais_operator.controllers.mission.decide.attempt_state import OPEN, Attempt, State
from kais_operator.controllers.mission.decide.check_results import Result
from kais_operator.controllers.mission.decide.review import ReviewMessage, Verdict
from kais_operator.planning import annotation_values, message_clauses
from kais_operator.planning.plan import Body

MAX_ATTEMPTS = 10
"""Number of attempts kept. 10 attempts of a few KiB stay far below the limit of annotations."""
_EARLIER_BYTES = 1024
"""Bytes kept of the message of each attempt before the latest."""
_MAX_CALLS = approvals.MAX_APPROVED + 2 * approvals.MAX_APPROVALS
"""Recorded calls that are read: one round of decisions may exceed the limit, and others follow."""
_STARTED_STATES = frozenset({State.SUCCEEDED, State.FAILED, State.TIMED_OUT})


@dataclass(frozen=True)
class AttemptSummary:
    """One attempt as its Mission records it.

    `end_message` describes how it ended; `message` is the task's termination message. `reserved` is
    what a mind may cost in the attempt, in US dollars; it is recorded while the attempt is open.
    """

    number: int
    state: State
    started_at: datetime
    finished_at: datetime | None
    end_message: str
    message: str = ""
    exit_code: int | None = None
    is_truncated: bool = False
    is_started: bool = True
    checks: tuple[Result, ...] = ()
    verdict: Verdict | None = None
    is_exec: bool = False
    usage: AgentUsage | None = None
    pod_usages: Mapping[str, AgentUsage | None] = field(default_factory=dict)
    reserved: Decimal = Decimal(0)
    failure: FailureClass | None = None
    artifacts: tuple[Artifact, ...] = ()
    receipt: str | None = None
    message_id: str | None = None
    pod_uid: str | None = None
    review: ReviewMessage | None = None
    approvals: tuple[CallApproval, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether the attempt has reached a final state."""
        return self.state not in OPEN

    def sentence(self) -> str:
        """Describe in one line how the attempt went.

        If the task failed, the line ends with the last line of the task's message.
        """
        is_tasks = self.state is State.FAILED and self.exit_code != 0 and not self.is_exec
        last = self.message.strip().splitlines()[-1:] if is_tasks else []
        return message_clauses.introduce(self.end_message, "".join(last))

    def feedback(self) -> str:
        """Return the feedback for the next attempt: the task's message, or the verdict on its work.

        The feedback of a reviewer comes first, then the results of the checks.
        """
        if self.verdict is not None:
            return self.verdict.feedback or self.end_message
        if self.review is not None:
            return self.end_message
        has_judged = any(result.status is not CheckStatus.PENDING for result in self.checks)
        return self.end_message if has_judged else self.message or self.end_message


def summarise(attempt: Attempt) -> AttemptSummary:
    """Reduce an attempt to what its Mission records."""
    return AttemptSummary(
        number=attempt.number,
        state=attempt.state,
        started_at=attempt.started_at,
        finished_at=attempt.finished_at,
        end_message=attempt.end_message,
        message=attempt.message,
        exit_code=attempt.exit_code,
        is_truncated=attempt.is_truncated,
        is_started=attempt.is_started or attempt.state in _STARTED_STATES,
        checks=attempt.checks,
        verdict=attempt.verdict,
        is_exec=attempt.is_exec,
        usage=attempt.usage,
        pod_usages=attempt.pod_usages,
        reserved=attempt.reserved,
        failure=attempt.failure,
        artifacts=attempt.artifacts,
        receipt=attempt.receipt,
        message_id=attempt.message_id,
        pod_uid=attempt.pod_uid,
        review=attempt.review,
        approvals=attempt.approvals,
    )


def summarise_all(attempts: Sequence[Attempt]) -> tuple[AttemptSummary, ...]:
    """Reduce attempts to what their Mission records.

    Only the first, whose start counts, and the latest are kept.
    """
    selected = (
        attempts if len(attempts) <= MAX_ATTEMPTS else [attempts[0], *attempts[1 - MAX_ATTEMPTS :]]
    )
    summaries = [summarise(attempt) for attempt in selected]
    return (*(_shortened(summary) for summary in summaries[:-1]), *summaries[-1:])


def review_usage(attempts: Iterable[Attempt | AttemptSummary]) -> AgentUsage | None:
    """Add up the usage of the reviews of attempts; None if nothing was reported."""
    reviews = [attempt.review for attempt in attempts]
    return mind_usage.total(review.usage for review in reviews if review is not None)


def run_usage(attempts: Sequence[Attempt | AttemptSummary]) -> AgentUsage | None:
    """Add up the usage of attempts and their reviews; None if nothing was reported."""
    work = [attempt.usage for attempt in attempts]
    return mind_usage.total([*work, review_usage(attempts)])


def _shortened(summary: AttemptSummary) -> AttemptSummary:
    message = summary.message.encode()[:_EARLIER_BYTES].decode("utf-8", "ignore")
    return replace(
        summary,
        end_message=summary.end_message[:_EARLIER_BYTES],
        message=message,
        is_truncated=summary.is_truncated or message != summary.message,
        checks=tuple(Result(result.name, result.status) for result in summary.checks),
        artifacts=(),
    )


def dump(summary: AttemptSummary) -> Body:
    """Return the record of an attempt for the annotation, without empty optional fields."""
    record: Body = {
        "number": summary.number,
        "state": summary.state.value,
        "startedAt": dump_time(summary.started_at),
        "finishedAt": dump_time(summary.finished_at),
        "words": summary.end_message,
        "message": summary.message,
        "exitCode": summary.exit_code,
        "truncated": summary.is_truncated,
        "begun": summary.is_started,
    }
    return record | _dump_details(summary)


def _dump_details(summary: AttemptSummary) -> Body:
    record: Body = {}
    if summary.checks:
        record["checks"] = [[r.name, r.status.value, r.message] for r in summary.checks]
    if summary.verdict is not None:
        author = [summary.verdict.by] if summary.verdict.by else []
        record["verdict"] = [summary.verdict.status.value, summary.verdict.feedback, *author]
    if summary.is_exec:
        record["exec"] = True
    if summary.message_id is not None:
        record["messageId"], record["podUid"] = summary.message_id, summary.pod_uid
        record["receipt"] = summary.receipt
    record |= _dump_review(summary.review) | _dump_approvals(summary.approvals)
    record |= {} if summary.is_over else _dump_pods(summary)
    if summary.usage is not None:
        record["usage"] = mind_usage.dump_usage(summary.usage)
    if summary.artifacts:
        record["artifacts"] = [[file.path, file.size_bytes] for file in summary.artifacts]
    if summary.failure is not None:
        record["failure"] = summary.failure.value
    return record


def parse(record: Mapping[str, Any]) -> AttemptSummary:
    """Parse a record that `dump` returned.

    Raises:
        annotation_values.BROKEN: The annotation was edited and is not valid.
    """
    verdict = record.get("verdict")
    number = annotation_values.number(record["number"], minimum=1)
    started_at = annotation_values.time(record["startedAt"])
    if started_at is None:
        raise ValueError("an attempt has a start")
    return AttemptSummary(
        number=number,
        state=State(record["state"]),
        started_at=started_at,
        finished_at=annotation_values.time(record.get("finishedAt")),
        end_message=annotation_values.parse_text(record.get("words")),
        message=annotation_values.parse_text(record.get("message")),
        exit_code=annotation_values.optional_number(
            record.get("exitCode"), minimum=-annotation_values.MAX_NUMBER
        ),
        is_truncated=bool(record.get("truncated")),
        is_started=bool(record.get("begun", True)),
        checks=tuple(
            Result(
                annotation_values.parse_text(name),
                CheckStatus(status),
                annotation_values.parse_text(message),
            )
            for name, status, message in record.get("checks") or ()
        ),
        verdict=_verdict(number, verdict),
        is_exec=bool(record.get("exec")),
        usage=mind_usage.parse_usage(record.get("usage")),
        pod_usages=_parse_pods(record.get("pods")),
        reserved=annotation_values.parse_cost(record.get("reserved") or "0"),
        failure=mind_usage.parse_failure(record.get("failure")),
        artifacts=tuple(
            Artifact(annotation_values.parse_text(path), annotation_values.number(size))
            for path, size in (record.get("artifacts") or ())[: agent_results.MAX_ARTIFACTS]
        ),
        receipt=_optional_text(record.get("receipt")),
        message_id=_optional_text(record.get("messageId")),
        pod_uid=_optional_text(record.get("podUid")),
        review=_parse_review(record.get("review")),
        approvals=_parse_approvals(record.get("approvals")),
    )


def dump_time(at: datetime | None) -> str | None:
    """Format a time as RFC 3339; None stays None."""
    return rfc3339(at) if at is not None else None


def _optional_text(value: Any) -> str | None:
    return annotation_values.parse_text(value) if value is not None else None


def _dump_review(review: ReviewMessage | None) -> Body:
    if review is None:
        return {}
    record: Body = {"podUid": review.pod_uid, "sentAt": rfc3339(review.sent_at)}
    if review.usage is not None:
        record["usage"] = mind_usage.dump_usage(review.usage)
    return {"review": record}


def _dump_pods(summary: AttemptSummary) -> Body:
    """Return what the pods reported, and what a lost report counts as: the Job may be deleted."""
    records = {
        uid: mind_usage.dump_usage(usage) if usage is not None else None
        for uid, usage in summary.pod_usages.items()
    }
    if not records:
        return {}
    reserved = {"reserved": f"{summary.reserved:f}"} if summary.reserved else {}
    return {"pods": records} | reserved


def _dump_approvals(calls: tuple[CallApproval, ...]) -> Body:
    """Return who decided what and when, without the arguments; a waiting call is not recorded."""
    decided = [replace(call, arguments="") for call in calls if call.outcome is not None]
    return {"approvals": [call.dump() for call in decided]} if decided else {}


def _parse_pods(records: Mapping[str, Any] | None) -> dict[str, AgentUsage | None]:
    return {
        annotation_values.parse_text(uid): mind_usage.parse_usage(usage)
        for uid, usage in (records or {}).items()
    }


def _parse_approvals(records: Sequence[Any] | None) -> tuple[CallApproval, ...]:
    calls = []
    for record in (records or ())[:_MAX_CALLS]:
        call = approvals.parse_call({**record, "arguments": "-"})
        if call is None:
            raise ValueError("an approval has another form")
        calls.append(replace(call, arguments=""))
    return tuple(calls)


def _parse_review(record: Mapping[str, Any] | None) -> ReviewMessage | None:
    if record is None:
        return None
    sent_at = annotation_values.time(record["sentAt"])
    if sent_at is None:
        raise ValueError("a review has a time")
    return ReviewMessage(
        annotation_values.parse_text(record["podUid"]),
        sent_at,
        mind_usage.parse_usage(record.get("usage")),
    )


def _verdict(number: int, values: Sequence[Any] | None) -> Verdict | None:
    if not values:
        return None
    status, feedback, *author = values
    by = annotation_values.parse_text(author[0]) if author else None
    return Verdict(number, ReviewStatus(status), annotation_values.parse_text(feedback), by)
