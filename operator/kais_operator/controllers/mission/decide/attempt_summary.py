"""One attempt as it is remembered on its Mission, when Jobs and pods are gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from kais.resources.check import CheckStatus, ReviewStatus
from kais.resources.field_types import rfc3339
from kais_operator.controllers.mission.decide.attempts import OPEN, Attempt, State
from kais_operator.controllers.mission.decide.check_rules import Result
from kais_operator.controllers.mission.decide.review import Verdict
from kais_operator.planning import annotation_values
from kais_operator.planning.plan import Body

KEPT = 10
"""Attempts that are kept; 10 of some KiB stay far below what annotations may hold."""
_EARLIER_BYTES = 1024
"""What is kept of the message of an attempt before the latest."""
_BEGUN = frozenset({State.SUCCEEDED, State.FAILED, State.TIMED_OUT})


@dataclass(frozen=True)
class Try:
    """One attempt as it is remembered. `words` say how it ended, `message` is the task's own."""

    number: int
    state: State
    started_at: datetime
    finished_at: datetime | None
    words: str
    message: str = ""
    exit_code: int | None = None
    is_truncated: bool = False
    has_begun: bool = True
    checks: tuple[Result, ...] = ()
    verdict: Verdict | None = None
    is_exec: bool = False

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of it."""
        return self.state not in OPEN

    def sentence(self) -> str:
        """Say in one line how the attempt went; a task that failed has the last word."""
        is_tasks = self.state is State.FAILED and self.exit_code != 0 and not self.is_exec
        last = self.message.strip().splitlines()[-1:] if is_tasks else []
        return ": ".join([self.words, *last])

    def feedback(self) -> str:
        """Give what the next attempt is told of this one: the task's own words, or who judged."""
        if self.verdict is not None:
            return self.verdict.feedback or self.words
        has_judged = any(result.status is not CheckStatus.PENDING for result in self.checks)
        return self.words if has_judged else self.message or self.words


def of(attempt: Attempt) -> Try:
    """Give one attempt as it is remembered."""
    return Try(
        number=attempt.number,
        state=attempt.state,
        started_at=attempt.started_at,
        finished_at=attempt.finished_at,
        words=attempt.words,
        message=attempt.message,
        exit_code=attempt.exit_code,
        is_truncated=attempt.is_truncated,
        has_begun=attempt.has_begun or attempt.state in _BEGUN,
        checks=attempt.checks,
        verdict=attempt.verdict,
        is_exec=attempt.is_exec,
    )


def of_all(attempts: Sequence[Attempt]) -> tuple[Try, ...]:
    """Give the attempts as they are remembered: the first, whose start counts, and the latest."""
    kept = attempts if len(attempts) <= KEPT else [attempts[0], *attempts[1 - KEPT :]]
    found = [of(attempt) for attempt in kept]
    return (*(_shorter(one) for one in found[:-1]), *found[-1:])


def _shorter(one: Try) -> Try:
    message = one.message.encode()[:_EARLIER_BYTES].decode("utf-8", "ignore")
    return replace(
        one,
        words=one.words[:_EARLIER_BYTES],
        message=message,
        is_truncated=one.is_truncated or message != one.message,
        checks=tuple(Result(result.name, result.status) for result in one.checks),
    )


def dump(one: Try) -> Body:
    """Write a try down; what says nothing is left out."""
    kept: Body = {
        "number": one.number,
        "state": one.state.value,
        "startedAt": dump_time(one.started_at),
        "finishedAt": dump_time(one.finished_at),
        "words": one.words,
        "message": one.message,
        "exitCode": one.exit_code,
        "truncated": one.is_truncated,
        "begun": one.has_begun,
    }
    if one.checks:
        kept["checks"] = [[r.name, r.status.value, r.message] for r in one.checks]
    if one.verdict is not None:
        kept["verdict"] = [one.verdict.status.value, one.verdict.feedback]
    if one.is_exec:
        kept["exec"] = True
    return kept


def parse(one: Mapping[str, Any]) -> Try:
    """Read what `dump` wrote.

    Raises:
        notes.BROKEN: somebody edited it.
    """
    verdict = one.get("verdict")
    number = annotation_values.number(one["number"], least=1)
    started_at = annotation_values.time(one["startedAt"])
    if started_at is None:
        raise ValueError("an attempt has a start")
    return Try(
        number=number,
        state=State(one["state"]),
        started_at=started_at,
        finished_at=annotation_values.time(one.get("finishedAt")),
        words=annotation_values.words(one.get("words")),
        message=annotation_values.words(one.get("message")),
        exit_code=annotation_values.optional_number(
            one.get("exitCode"), least=-annotation_values.MOST
        ),
        is_truncated=bool(one.get("truncated")),
        has_begun=bool(one.get("begun", True)),
        checks=tuple(
            Result(
                annotation_values.words(name), CheckStatus(status), annotation_values.words(words)
            )
            for name, status, words in one.get("checks") or ()
        ),
        verdict=_verdict(number, verdict),
        is_exec=bool(one.get("exec")),
    )


def dump_time(at: datetime | None) -> str | None:
    """Write a time; None stays None."""
    return rfc3339(at) if at is not None else None


def _verdict(number: int, told: Sequence[Any] | None) -> Verdict | None:
    if not told:
        return None
    return Verdict(number, ReviewStatus(told[0]), annotation_values.words(told[1]))
