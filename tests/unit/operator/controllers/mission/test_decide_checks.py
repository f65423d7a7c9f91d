"""The state of an attempt after its checks and its review, case by case."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from kais import labels
from kais.resources.mission import Mission
from kais_operator.controllers.mission.decide import attempt_checks
from kais_operator.controllers.mission.decide.attempt_state import Attempt, State
from kais_operator.controllers.mission.decide.check_results import Output
from kais_operator.controllers.mission.decide.mission_observed import MissionObserved
from kais_operator.controllers.mission.decide.run_history_annotation import AttemptHistory
from kais_operator.planning.container_results import Process
from tests.fakes import teams
from tests.fakes.decisions import NOW, stored

STARTED = NOW - timedelta(seconds=20)
ENDED = NOW - timedelta(seconds=5)
ANSWER = {"name": "answer", "type": "response", "successPattern": "DONE"}
TESTS = {"name": "tests", "type": "command", "command": "make test"}
LINT = {"name": "lint", "type": "command", "command": "make lint"}
NOBODY = "a reviewer (not on record: this installation has no admission policy)"
REVIEW = {"enabled": True, "reviewer": "ada", "criteria": "is it right?"}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "mission-doctor-a1", "namespace": "demo", "uid": "job"},
}
PASSED, FAILED = Process(STARTED, ENDED, 0), Process(STARTED, ENDED, 2, "2 failed")
NO_MATCH = "the answer does not match successPattern 'DONE'"
FAILURE = "exit code 2: 2 failed"
RUNNING = Process(began_at=STARTED)


@dataclass(frozen=True)
class Case:
    """The checks and the review of a mission, what is observed, and the state with its message."""

    expected: tuple[State, str]
    checks: tuple[dict[str, Any], ...] = ()
    state: State = State.SUCCEEDED
    processes: dict[str, Process] | None = None
    outputs: dict[str, Output] = field(default_factory=dict)
    review: dict[str, Any] | None = None
    verdict: Any = None
    now: datetime = NOW


WITH_TESTS: dict[str, Any] = {"checks": (TESTS, LINT), "state": State.CHECKING}
REVIEWED: dict[str, Any] = {"review": REVIEW}
CASES: dict[str, Case] = {
    "without checks and review a task that succeeded is a success": Case(
        (State.SUCCEEDED, "the task ended")
    ),
    "a task that failed is not checked": Case(
        (State.FAILED, "the task ended"), checks=(ANSWER,), state=State.FAILED
    ),
    "a task that runs is not checked yet": Case(
        (State.RUNNING, "the task ended"), checks=(ANSWER,), state=State.RUNNING
    ),
    "an answer that matches its pattern is a success": Case(
        (State.SUCCEEDED, "the task succeeded and its checks passed"),
        checks=(ANSWER,),
        outputs={"answer": Output("DONE", succeeds=True)},
    ),
    "an answer that does not match its pattern is a failure": Case(
        (
            State.FAILED,
            f"checks failed: answer Failed: {NO_MATCH}",
        ),
        checks=(ANSWER,),
        outputs={"answer": Output("nothing", succeeds=False)},
    ),
    "an answer that cannot be searched is a failure": Case(
        (State.FAILED, "checks failed: answer Error: too slow"),
        checks=(ANSWER,),
        outputs={"answer": Output(problem="too slow")},
    ),
    "an answer that is still searched is waited for": Case(
        (State.CHECKING, "checks are running: answer"), checks=(ANSWER,)
    ),
    "checks in a running container that have not started are waited for": Case(
        (State.CHECKING, "checks are running: tests, lint"), processes={}, **WITH_TESTS
    ),
    "a check that runs is waited for": Case(
        (State.CHECKING, "checks are running: lint"),
        processes={"tests": PASSED, "lint": RUNNING},
        **WITH_TESTS,
    ),
    "checks that all passed are a success": Case(
        (State.SUCCEEDED, "the checks passed"),
        processes={"tests": PASSED, "lint": PASSED},
        **WITH_TESTS,
    ),
    "each check that failed is named": Case(
        (
            State.FAILED,
            f"checks failed: tests Failed: {FAILURE}; lint Failed: {FAILURE}",
        ),
        processes={"tests": FAILED, "lint": FAILED},
        **WITH_TESTS,
    ),
    "a check that exceeds its time is an error": Case(
        (State.FAILED, "checks failed: lint Error: it did not end within 300 s"),
        processes={"tests": PASSED, "lint": RUNNING},
        now=STARTED + timedelta(seconds=300),
        **WITH_TESTS,
    ),
    "a check that could not be run is an error": Case(
        (State.FAILED, "checks failed: lint Error: the connection broke"),
        processes={"tests": PASSED, "lint": Process(failure="the connection broke")},
        **WITH_TESTS,
    ),
    "work with a review waits for the verdict": Case(
        (State.REVIEWING, "the task succeeded; it waits for the review by ada"), **REVIEWED
    ),
    "a review that is not enabled is not waited for": Case(
        (State.SUCCEEDED, "the task ended"), review={**REVIEW, "enabled": False}
    ),
    "work that the reviewer approved is a success": Case(
        (
            State.SUCCEEDED,
            f"the task succeeded, and {NOBODY} approved",
        ),
        verdict={"attempt": 1, "verdict": "approve"},
        **REVIEWED,
    ),
    "work that the reviewer rejected is a failure with the feedback": Case(
        (
            State.FAILED,
            f"rejected in review by {NOBODY}: too short",
        ),
        verdict={"attempt": 1, "verdict": "reject", "feedback": "too short"},
        **REVIEWED,
    ),
    "a verdict on another attempt decides nothing": Case(
        (State.REVIEWING, "the task succeeded; it waits for the review by ada"),
        verdict={"attempt": 2, "verdict": "approve"},
        **REVIEWED,
    ),
    "a verdict on another run decides nothing": Case(
        (State.REVIEWING, "the task succeeded; it waits for the review by ada"),
        verdict={"attempt": 1, "verdict": "approve", "run": "another"},
        **REVIEWED,
    ),
    "a verdict that is neither approve nor reject decides nothing": Case(
        (State.REVIEWING, "the task succeeded; it waits for the review by ada"),
        verdict={"attempt": 1, "verdict": "perhaps"},
        **REVIEWED,
    ),
    "work whose checks failed is not reviewed": Case(
        (
            State.FAILED,
            f"checks failed: answer Failed: {NO_MATCH}",
        ),
        checks=(ANSWER,),
        outputs={"answer": Output("nothing", succeeds=False)},
        verdict={"attempt": 1, "verdict": "approve"},
        **REVIEWED,
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_attempt_with_checks_and_a_review(case: Case) -> None:
    completion = {"checks": list(case.checks), "review": case.review}
    body = teams.work(completion={k: v for k, v in completion.items() if v})
    annotations = {} if case.verdict is None else {labels.REVIEW: json.dumps(case.verdict)}
    is_exec = case.processes is not None
    has_ended = case.state in (State.SUCCEEDED, State.FAILED)
    attempt = Attempt(
        1,
        None if is_exec else JOB,
        case.state,
        STARTED,
        ENDED if has_ended else None,
        end_message="the task ended",
        exit_code=0 if case.state is State.SUCCEEDED else None,
        is_started=True,
        is_exec=is_exec,
    )
    observed = MissionObserved(
        Mission.from_dict(stored(body, annotations=annotations)),
        history=AttemptHistory((attempt,)),
        execs=case.processes or {},
        outputs=case.outputs,
    )
    (evaluated,) = attempt_checks.evaluate_attempts(observed, case.now)
    assert (evaluated.state, evaluated.end_message) == case.expected
