"""Evaluate the checks and the review of an attempt.

    task succeeds -> each check is evaluated once -> review -> the attempt succeeds or fails

Every final result is recorded on the Mission (`run_history_annotation`), so nothing is evaluated
twice and nothing is lost with a pod. `observe` reads the output of checks; `outputs_to_read` and
`commands_to_read` list what it has to read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from kais.reasons import Reason
from kais.resources.check import Check, CheckStatus, ReviewStatus
from kais.resources.mission import Mission
from kais_operator.controllers.mission.decide import (
    agent_reviews,
    attempt_pods,
    check_pods,
    check_results,
    reviewer_cells,
)
from kais_operator.controllers.mission.decide import review as decide_review
from kais_operator.controllers.mission.decide.attempt_state import Attempt, State
from kais_operator.controllers.mission.decide.check_results import Output, Result
from kais_operator.controllers.mission.decide.mission_observed import MissionObserved
from kais_operator.planning.container_results import Process
from kais_operator.planning.plan import Body, ObjectRef

OUTPUT_GONE = "its output is gone with its pod"
_MESSAGE_LIMIT = 2048
"""Characters for all failed checks of an attempt; the Mission records them for each attempt."""
_TASK_RAN = frozenset({State.RUNNING, State.SUCCEEDED, State.FAILED, State.TIMED_OUT})


@dataclass(frozen=True)
class OutputToRead:
    """What has to be read to evaluate a check: the log of a container, or a known text."""

    check: Check
    pod: ObjectRef | None = None
    container: str = ""
    text: str = ""


def evaluate_attempts(observed: MissionObserved, now: datetime) -> list[Attempt]:
    """Evaluate the checks and the review of the latest attempt.

    Returns:
        All attempts, oldest first.
    """
    history = observed.history
    if history.latest is None or history.is_settled:
        return list(history.attempts)
    return [*history.attempts[:-1], _evaluate(observed, history.latest, now)]


def outputs_to_read(observed: MissionObserved, now: datetime) -> list[OutputToRead]:
    """List the output still to be read for the latest attempt, but no commands in containers."""
    last = observed.history.latest
    if last is None or last.is_exec or observed.history.is_settled:
        return []
    if not _is_task_done(observed.mission, last):
        return []
    return list(_outputs_to_read(observed, last, _not_final(observed), now))


def commands_to_read(observed: MissionObserved) -> list[Check]:
    """List the checks in a running container that have no final result yet."""
    last = observed.history.latest
    if last is None or not last.is_exec or last.is_over or last.state is State.RUNNING:
        return []
    return [check for check in _not_final(observed) if not check_results.is_response(check)]


def answers_to_match(observed: MissionObserved) -> list[OutputToRead]:
    """List the response checks of an agent's answer that have no final result yet."""
    last = observed.history.latest
    if last is None or last.message_id is None or last.state is not State.CHECKING:
        return []
    pending_checks = [check for check in _not_final(observed) if check_results.is_response(check)]
    return [OutputToRead(check, text=last.message) for check in pending_checks]


def _not_final(observed: MissionObserved) -> list[Check]:
    final = observed.history.final_results
    return [check for check in _checks(observed) if check.name not in final]


def _outputs_to_read(
    observed: MissionObserved, last: Attempt, checks: Sequence[Check], now: datetime
) -> Iterator[OutputToRead]:
    pod = _pod_of(observed, last)
    for check in checks:
        if check_results.is_response(check):
            yield OutputToRead(check, text=last.message)
        elif check_results.needs_output(check) and pod is not None:
            process = _process(observed, last, check)
            is_open = not check_results.evaluate(check, process, None, now).is_final
            if process is not None and process.ended_at is not None and is_open:
                ref = ObjectRef("Pod", pod["metadata"]["namespace"], pod["metadata"]["name"])
                yield OutputToRead(check, ref, check_pods.name_of(observed.mission, check))


def deadlines(observed: MissionObserved, last: Attempt) -> list[datetime]:
    """Return the deadlines of the checks that run in containers of the attempt's pod."""
    if last.is_exec or last.state is not State.CHECKING:
        return []
    deadlines = []
    final = {result.name for result in last.checks if result.is_final}
    for check in _checks(observed):
        if check.name in final or check_results.is_response(check):
            continue
        process = _process(observed, last, check)
        if process is None or process.began_at is None or process.ended_at is not None:
            continue  # ended checks are evaluated by their own times
        deadlines.append(process.began_at + check_results.timeout_of(check))
    return deadlines


def checks_to_start(observed: MissionObserved, last: Attempt) -> list[Check]:
    """List the checks of a series in a running container that have not been started."""
    if not last.is_exec or last.is_over or last.state is State.RUNNING:
        return []
    final = {result.name for result in last.checks if result.is_final}
    return [
        check
        for check in _checks(observed)
        if check.name not in final
        and check.name not in observed.execs
        and not check_results.is_response(check)
    ]


def _checks(observed: MissionObserved) -> Sequence[Check]:
    return observed.mission.spec.completion.checks


def _evaluate(observed: MissionObserved, last: Attempt, now: datetime) -> Attempt:
    mission = observed.mission
    final = observed.history.final_results
    if last.message_id is not None and (last.is_over or last.state is State.RUNNING):
        return _unanswered(observed, last)
    if last.is_exec:
        return _with_results(observed, last, _results_of_exec(observed, final, now), now=now)
    if last.job is None:
        return _without_job(observed, last, now)
    if not _checks(observed) and not decide_review.is_wanted(mission):
        return last
    if not _is_task_done(mission, last):
        waiting = tuple(check_results.pending(check) for check in _checks(observed))
        return replace(last, checks=waiting)
    results = tuple(
        final.get(check.name) or _result(observed, last, check, now) for check in _checks(observed)
    )
    problem = _pod_problem(observed, last)
    last = (
        replace(last, problem_reason=problem[0], end_message=problem[1])
        if problem is not None
        else last
    )
    is_hanging = any(
        _is_hanging(observed, last, c, r) for c, r in zip(_checks(observed), results, strict=True)
    )
    return _with_results(observed, last, results, now=now, is_hanging=is_hanging)


def _without_job(observed: MissionObserved, last: Attempt, now: datetime) -> Attempt:
    """Continue the review of an attempt whose work is recorded; the end of other work is lost."""
    if last.state is State.REVIEWING:
        return _reviewed(observed, last, last.finished_at or now, now)
    return replace(
        last,
        state=State.LOST,
        finished_at=now,
        problem_reason=Reason.POD_FAILED,
        end_message="its Job is gone, so it is unknown how its task ended",
    )


def _unanswered(observed: MissionObserved, last: Attempt) -> Attempt:
    """Return an attempt of an agent that has not answered, or has failed."""
    if last.is_over:
        return last
    return replace(last, checks=tuple(check_results.pending(check) for check in _checks(observed)))


def _is_task_done(mission: Mission, last: Attempt) -> bool:
    """Whether an attempt's task is known to have succeeded, so that checks can be evaluated."""
    if last.state not in _TASK_RAN or last.exit_code not in (0, None):
        return False
    if last.state is State.SUCCEEDED:
        return True
    return last.exit_code == 0 and check_pods.has_containers(mission)


def _results_of_exec(
    observed: MissionObserved, final: dict[str, Result], now: datetime
) -> tuple[Result, ...]:
    return tuple(
        final.get(check.name) or _result_of_exec(observed, check, now)
        for check in _checks(observed)
    )


def _result_of_exec(observed: MissionObserved, check: Check, now: datetime) -> Result:
    output = observed.outputs.get(check.name)
    if check_results.is_response(check):
        return check_results.evaluate_response(check, output)
    return check_results.evaluate(check, observed.execs.get(check.name), output, now)


def _result(observed: MissionObserved, last: Attempt, check: Check, now: datetime) -> Result:
    output = observed.outputs.get(check.name)
    if check_results.is_response(check):
        return check_results.evaluate_response(check, output)
    process = _process(observed, last, check)
    has_pod = _pod_of(observed, last) is not None
    if output is None and not has_pod and check_results.needs_output(check):
        output = Output(problem=OUTPUT_GONE)
    return check_results.evaluate(check, process, output, now)


def _process(observed: MissionObserved, last: Attempt, check: Check) -> Process | None:
    """Return a check's process, from its container or from what the end of its Job proves."""
    pod = _pod_of(observed, last)
    if pod is not None:
        state = attempt_pods.container_state(pod, check_pods.name_of(observed.mission, check))
        process = check_pods.process_of(state)
        if process is not None or last.finished_at is None:
            return process
        return Process(failure=f"it did not run: {last.end_message}")
    if last.state is State.SUCCEEDED:
        return Process(began_at=last.finished_at, ended_at=last.finished_at, exit_code=0)
    return Process(failure=OUTPUT_GONE)


def _is_hanging(observed: MissionObserved, last: Attempt, check: Check, result: Result) -> bool:
    """Whether the check has a final result and its container still runs.

    Its Job does not end by itself then.
    """
    if not result.is_final or check_results.is_response(check) or last.finished_at is not None:
        return False
    process = _process(observed, last, check)
    return process is not None and process.failure is None and process.ended_at is None


def _pod_problem(observed: MissionObserved, last: Attempt) -> tuple[Reason, str] | None:
    """Return why the container of a check does not start; None without a problem."""
    pod = _pod_of(observed, last)
    if pod is None or last.finished_at is not None:
        return None
    for check in _checks(observed):
        if check_results.is_response(check):
            continue
        process = _process(observed, last, check)
        if process is not None and process.waiting_message:
            return (
                Reason.POD_FAILED,
                f'check "{check.name}" does not start: {process.waiting_message}',
            )
    return None


def _pod_of(observed: MissionObserved, last: Attempt) -> Body | None:
    if last.job is None:
        return None
    return attempt_pods.latest_pod(attempt_pods.pods_of(last.job, observed.pods))


def _with_results(
    observed: MissionObserved,
    last: Attempt,
    results: tuple[Result, ...],
    *,
    now: datetime,
    is_hanging: bool = False,
) -> Attempt:
    """Return the attempt with these results and the state that follows from them."""
    last = replace(last, checks=results)
    open_ = [result.name for result in results if not result.is_final]
    has_ended = last.is_exec or last.finished_at is not None or is_hanging
    if open_ and last.state is State.TIMED_OUT:
        return last
    if open_ or not has_ended:
        message = f"checks are running: {', '.join(open_)}" if open_ else "its checks have ended"
        return replace(
            last,
            state=State.CHECKING,
            end_message=last.end_message if last.problem_reason else message,
        )
    ended_at = last.finished_at or now
    bad = [result for result in results if result.status is not CheckStatus.PASSED]
    if bad:
        message = _truncate("checks failed: " + "; ".join(_sentence(result) for result in bad))
        return replace(
            last, state=State.FAILED, finished_at=ended_at, end_message=message, problem_reason=None
        )
    return _reviewed(observed, last, ended_at, now)


def _truncate(message: str) -> str:
    return message if len(message) <= _MESSAGE_LIMIT else f"{message[: _MESSAGE_LIMIT - 1]}…"


def _sentence(result: Result) -> str:
    return f"{result.name} {result.status}{': ' if result.message else ''}{result.message}"


def _reviewed(
    observed: MissionObserved, last: Attempt, ended_at: datetime, now: datetime
) -> Attempt:
    mission = observed.mission
    succeeded = replace(last, state=State.SUCCEEDED, finished_at=ended_at, problem_reason=None)
    is_series = last.is_exec and last.message_id is None
    summary = "the checks passed" if is_series else "the task succeeded"
    if last.message_id is not None:
        summary = "the agent answered"
    if last.checks and not is_series:
        summary += " and its checks passed"
    review = mission.spec.completion.review
    if review is None or not review.enabled:
        return replace(succeeded, end_message=summary)
    verdict = decide_review.read(mission)
    is_by_cell = last.review is not None or reviewer_cells.find(mission, observed.team) is not None
    if not isinstance(verdict, decide_review.Verdict) or verdict.attempt != last.number:
        if is_by_cell:
            reviewing = replace(succeeded, state=State.REVIEWING)
            return agent_reviews.with_verdict(observed, reviewing, summary, now)
        message = f"{summary}; it waits for the review by {review.reviewer}"
        return replace(succeeded, state=State.REVIEWING, end_message=message)
    user = decide_review.reviewer(mission, is_recorded=observed.has_review_policy)
    verdict = replace(verdict, by=user)
    author = user or _unknown_reviewer(observed)
    if verdict.status is ReviewStatus.REJECTED:
        suffix = f": {verdict.feedback}" if verdict.feedback else ""
        message = f"rejected in review by {author}{suffix}"
        return replace(succeeded, state=State.FAILED, end_message=message, verdict=verdict)
    return replace(succeeded, end_message=f"{summary}, and {author} approved", verdict=verdict)


def _unknown_reviewer(observed: MissionObserved) -> str:
    reason = "" if observed.has_review_policy else ": this installation has no admission policy"
    return f"a reviewer (not on record{reason})"
