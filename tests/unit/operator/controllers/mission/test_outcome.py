"""The outcome of a Mission's run, rule by rule, in the order in which the rules decide."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kais import labels
from kais.reasons import Reason
from kais.resources.check import CheckStatus
from kais.resources.mission import Mission
from kais_operator.controllers.mission.decide import outcome
from kais_operator.controllers.mission.decide.attempt_state import Attempt, State
from kais_operator.controllers.mission.decide.check_results import Result
from kais_operator.controllers.mission.decide.entrypoint import NotReady
from kais_operator.controllers.mission.decide.mission_observed import Ledger, MissionObserved
from kais_operator.controllers.mission.decide.run_history_annotation import AttemptHistory
from kais_operator.planning.failed_write import FailedWrite
from knowledge_client import models

ACCEPTED = datetime(2026, 1, 1, 12, tzinfo=UTC)
STARTED = ACCEPTED + timedelta(seconds=10)
TIME = STARTED + timedelta(seconds=30)
AFTER_START_DEADLINE = ACCEPTED + timedelta(minutes=5)
AFTER_TIMEOUT = STARTED + timedelta(minutes=10)
QUOTA = "pods is forbidden: exceeded quota"
ABORT = {labels.ABORT: "now"}


@dataclass(frozen=True)
class Case:
    """What is observed, and the outcome with its message; None while the run goes on."""

    expected: tuple[str, str] | None
    attempts: tuple[Attempt, ...] = ()
    now: datetime = TIME
    obstacle: NotReady | None = None
    held_back: NotReady | None = None
    annotations: dict[str, str] = field(default_factory=dict)
    is_deleting: bool = False
    refused_write: str | None = None
    failed_write: FailedWrite | None = None
    ledger_outcome: str | None = None
    max_attempts: int = 2
    restarting: Attempt | None = None
    pods: tuple[dict[str, Any], ...] = ()


def attempt(state: State, number: int = 1, **fields: Any) -> Attempt:
    return Attempt(number, None, state, STARTED, **{"is_started": True, **fields})


PENDING = Result("tests", CheckStatus.PENDING)
RUNNING = attempt(State.RUNNING)
WAITING = attempt(State.WAITING, is_started=False)
SUCCEEDED = attempt(State.SUCCEEDED, finished_at=TIME, end_message="the task succeeded")
FAILED = attempt(State.FAILED, finished_at=TIME, end_message="exit code 3", exit_code=3)
FAILED_AGAIN = replace(FAILED, number=2)
UNCHECKED = replace(
    attempt(State.CHECKING, problem_reason=Reason.POD_FAILED),
    job={"metadata": {"creationTimestamp": AFTER_START_DEADLINE.isoformat()}},
)
RUNNING_AGAIN = replace(RUNNING, number=2)
SECOND = timedelta(seconds=1)
POD_ENDS_EARLY, POD_ENDS = STARTED + timedelta(minutes=2), STARTED + timedelta(minutes=20)
TERMINATING_EARLY = {"metadata": {"deletionTimestamp": POD_ENDS_EARLY.isoformat()}}
TERMINATING = {"metadata": {"deletionTimestamp": POD_ENDS.isoformat()}}
NOT_AGAIN = "attempt 1, whose Job is gone, did not start again in time"
BEFORE_AGAIN = "before attempt 2, whose Job is gone, started again"
OUT_OF_TIME = "the 10m for all attempts ran out"
WORKING: dict[str, Any] = {"metadata": {}}
AWAY = "failed calling webhook"
JUST_FAILED = FailedWrite(AWAY, first_at=AFTER_START_DEADLINE, last_at=AFTER_START_DEADLINE)
LONG_FAILED = FailedWrite(AWAY, first_at=ACCEPTED, last_at=AFTER_START_DEADLINE)
NO_CELL = NotReady(Reason.CELL_NOT_FOUND, "Cell/demo/solo does not exist; create it")
HELD = NotReady(Reason.PAUSED, "the team is paused")

CASES: dict[str, Case] = {
    "the ledger's outcome stands, whatever is seen here": Case(
        ("Failed", "the knowledge service recorded the outcome Failed"),
        attempts=(SUCCEEDED,),
        ledger_outcome="Failed",
    ),
    "before an attempt nothing ends a mission that waits within its start deadline": Case(
        None, obstacle=NO_CELL
    ),
    "before an attempt an abort cancels": Case(
        ("Cancelled", f'{labels.ABORT} "now" ended the mission before it started'),
        annotations=ABORT,
        obstacle=NO_CELL,
        now=AFTER_START_DEADLINE,
    ),
    "before an attempt a deletion cancels, before an abort": Case(
        ("Cancelled", "the mission was deleted before it started"),
        annotations=ABORT,
        is_deleting=True,
    ),
    "the start deadline ends a mission that could not start": Case(
        ("InfrastructureFailed", f"not started within 5m: {NO_CELL.message}"),
        obstacle=NO_CELL,
        now=AFTER_START_DEADLINE,
    ),
    "the start deadline ends a mission whose Job the API server refused": Case(
        ("InfrastructureFailed", f"not started within 5m: {QUOTA}"),
        refused_write=QUOTA,
        now=AFTER_START_DEADLINE,
    ),
    "the start deadline ends a mission whose writes failed for as long": Case(
        ("InfrastructureFailed", f"not started within 5m: {AWAY}"),
        failed_write=LONG_FAILED,
        now=AFTER_START_DEADLINE,
    ),
    "a write that failed just now may succeed, so it ends no mission": Case(
        None, failed_write=JUST_FAILED, now=AFTER_START_DEADLINE
    ),
    "an obstacle of today is named before the last refusal": Case(
        ("InfrastructureFailed", f"not started within 5m: {NO_CELL.message}"),
        obstacle=NO_CELL,
        refused_write=QUOTA,
        now=AFTER_START_DEADLINE,
    ),
    "the start deadline counts against nobody when nothing stands in the way": Case(
        None, now=AFTER_START_DEADLINE
    ),
    "a run whose Job is gone had started, so it may wait until its timeout": Case(
        None, obstacle=NO_CELL, now=AFTER_TIMEOUT - SECOND, restarting=RUNNING
    ),
    "a run whose Job is gone ends if it cannot start until its timeout": Case(
        ("InfrastructureFailed", f"{NOT_AGAIN}: {NO_CELL.message}"),
        obstacle=NO_CELL,
        now=AFTER_TIMEOUT,
        restarting=RUNNING,
    ),
    "a run whose Job is gone is timed out if nothing else prevents its start": Case(
        ("TimedOut", f"{OUT_OF_TIME} before attempt 1, whose Job is gone, started again"),
        now=AFTER_TIMEOUT,
        restarting=RUNNING,
    ),
    "a run whose Job is gone and that is held back until its timeout is no fault of its own": Case(
        (
            "InfrastructureFailed",
            "attempt 1, whose Job is gone, did not start again within the 10m for all attempts: "
            + HELD.message,
        ),
        held_back=HELD,
        now=AFTER_TIMEOUT,
        restarting=RUNNING,
    ),
    "the time of all attempts counts for one whose Job is gone": Case(
        ("TimedOut", f"{OUT_OF_TIME} {BEFORE_AGAIN}"),
        attempts=(FAILED,),
        now=AFTER_TIMEOUT,
        restarting=RUNNING_AGAIN,
    ),
    "an abort says which attempt starts again": Case(
        (
            "Cancelled",
            f'{labels.ABORT} "now" ended the mission {BEFORE_AGAIN}',
        ),
        attempts=(FAILED,),
        annotations=ABORT,
        restarting=RUNNING_AGAIN,
    ),
    "a pod of a Job that is gone may report after the timeout, until it has to end": Case(
        None,
        obstacle=NO_CELL,
        now=POD_ENDS - SECOND,
        restarting=RUNNING,
        pods=(TERMINATING,),
    ),
    "it reports no more when it had to end": Case(
        ("InfrastructureFailed", f"{NOT_AGAIN}: {NO_CELL.message}"),
        obstacle=NO_CELL,
        now=POD_ENDS,
        restarting=RUNNING,
        pods=(TERMINATING,),
    ),
    "a run waits for a pod of a Job that is gone until the start deadline": Case(
        None,
        obstacle=NO_CELL,
        now=POD_ENDS_EARLY + timedelta(minutes=5) - SECOND,
        restarting=RUNNING,
        pods=(TERMINATING_EARLY,),
    ),
    "a run ends if a pod of a Job that is gone has not ended in time": Case(
        ("InfrastructureFailed", f"{NOT_AGAIN}: {NO_CELL.message}"),
        obstacle=NO_CELL,
        now=POD_ENDS_EARLY + timedelta(minutes=5),
        restarting=RUNNING,
        pods=(TERMINATING_EARLY,),
    ),
    "a suspended run waits on after the start deadline": Case(
        None,
        now=POD_ENDS_EARLY + timedelta(minutes=5),
        restarting=RUNNING,
        pods=(TERMINATING_EARLY,),
    ),
    "a pod of a Job that is gone may work until the timeout, and then report": Case(
        None,
        obstacle=NO_CELL,
        now=AFTER_TIMEOUT + outcome.JOB_STATUS_GRACE - SECOND,
        restarting=RUNNING,
        pods=(WORKING,),
    ),
    "a pod that works on after that ends the run": Case(
        ("InfrastructureFailed", f"{NOT_AGAIN}: {NO_CELL.message}"),
        obstacle=NO_CELL,
        now=AFTER_TIMEOUT + outcome.JOB_STATUS_GRACE,
        restarting=RUNNING,
        pods=(WORKING,),
    ),
    "the checks of a Job that replaces a deleted one have all their time to start": Case(
        None, attempts=(UNCHECKED,), now=AFTER_START_DEADLINE + timedelta(minutes=1)
    ),
    "an attempt that succeeded is a success, even after the timeout": Case(
        ("Succeeded", "attempt 1: the task succeeded"),
        attempts=(SUCCEEDED,),
        now=AFTER_TIMEOUT,
    ),
    "a success counts although the mission is aborted": Case(
        ("Succeeded", "attempt 1: the task succeeded"), attempts=(SUCCEEDED,), annotations=ABORT
    ),
    "an attempt that the cluster lost is the cluster's fault": Case(
        ("InfrastructureFailed", "attempt 1: Evicted: the node was full"),
        attempts=(attempt(State.LOST, finished_at=TIME, end_message="Evicted: the node was full"),),
    ),
    "an attempt that the kubelet ended at the deadline is a timeout": Case(
        ("TimedOut", "the 10m for all attempts ran out in attempt 1"),
        attempts=(attempt(State.TIMED_OUT, finished_at=AFTER_TIMEOUT),),
    ),
    "an attempt that failed is followed by another": Case(None, attempts=(FAILED,)),
    "an abort between two attempts cancels": Case(
        ("Cancelled", f'{labels.ABORT} "now" ended the mission after attempt 1 failed'),
        attempts=(FAILED,),
        annotations=ABORT,
    ),
    "no attempt follows after the timeout": Case(
        ("TimedOut", "the 10m for all attempts ran out in attempt 1"),
        attempts=(FAILED,),
        now=AFTER_TIMEOUT,
    ),
    "an attempt that the API server refused until the timeout is the cluster's fault": Case(
        (
            "InfrastructureFailed",
            f"attempt 2 did not start within the 10m for all attempts: {QUOTA}",
        ),
        attempts=(FAILED,),
        refused_write=QUOTA,
        now=AFTER_TIMEOUT,
    ),
    "so is one that it failed to create": Case(
        (
            "InfrastructureFailed",
            f"attempt 2 did not start within the 10m for all attempts: {AWAY}",
        ),
        attempts=(FAILED,),
        failed_write=LONG_FAILED,
        now=AFTER_TIMEOUT,
    ),
    "so is one whose cell is gone": Case(
        (
            "InfrastructureFailed",
            f"attempt 2 did not start within the 10m for all attempts: {NO_CELL.message}",
        ),
        attempts=(FAILED,),
        obstacle=NO_CELL,
        now=AFTER_TIMEOUT,
    ),
    "so is one that was held back until the timeout": Case(
        (
            "InfrastructureFailed",
            "attempt 2 did not start within the 10m for all attempts: the team is paused",
        ),
        attempts=(FAILED,),
        held_back=HELD,
        now=AFTER_TIMEOUT,
    ),
    "the wait between two attempts is a timeout": Case(
        ("TimedOut", "the 10m for all attempts ran out in attempt 1"),
        attempts=(FAILED,),
        obstacle=NotReady(Reason.RETRYING, "attempt 2 starts soon"),
        now=AFTER_TIMEOUT,
    ),
    "the next attempt may be created until the timeout": Case(
        None, attempts=(FAILED,), refused_write=QUOTA, now=AFTER_TIMEOUT - SECOND
    ),
    "the last attempt that failed ends the run": Case(
        ("Failed", "attempt 2 of 2 failed: exit code 3"), attempts=(FAILED, FAILED_AGAIN)
    ),
    "an attempt that runs goes on": Case(None, attempts=(RUNNING,)),
    "an abort while an attempt runs cancels": Case(
        ("Cancelled", f'{labels.ABORT} "now" ended the mission while attempt 1 ran'),
        attempts=(RUNNING,),
        annotations=ABORT,
    ),
    "an abort waits for a task that ended and that its Job has not counted": Case(
        None, attempts=(replace(RUNNING, exit_code=0),), annotations=ABORT
    ),
    "an attempt that runs into the timeout is timed out": Case(
        ("TimedOut", "the 10m for all attempts ran out in attempt 1"),
        attempts=(RUNNING,),
        now=AFTER_TIMEOUT,
    ),
    "a timeout while checks run says so": Case(
        ("TimedOut", "the 10m for all attempts ran out in attempt 1 while it was checked"),
        attempts=(attempt(State.CHECKING, checks=(PENDING,)),),
        now=AFTER_TIMEOUT,
    ),
    "a timeout before the review says so": Case(
        ("TimedOut", "the 10m for all attempts ran out in attempt 1 before it was reviewed"),
        attempts=(attempt(State.REVIEWING),),
        now=AFTER_TIMEOUT,
    ),
    "a task that ended at the timeout gets time to be counted by its Job": Case(
        None, attempts=(replace(RUNNING, exit_code=0),), now=AFTER_TIMEOUT
    ),
    "the Job has thirty seconds to count it": Case(
        ("TimedOut", "the 10m for all attempts ran out in attempt 1"),
        attempts=(replace(RUNNING, exit_code=0),),
        now=AFTER_TIMEOUT + outcome.JOB_STATUS_GRACE,
    ),
    "an attempt that never started by the start deadline is the cluster's fault": Case(
        ("InfrastructureFailed", "attempt 1 did not start within 5m: it has no pod"),
        attempts=(WAITING,),
        now=STARTED + timedelta(minutes=5),
    ),
    "its message says what its pod waited for": Case(
        ("InfrastructureFailed", "attempt 1 did not start within 5m: no node fits"),
        attempts=(
            replace(WAITING, problem_reason=Reason.UNSCHEDULABLE, end_message="no node fits"),
        ),
        now=STARTED + timedelta(minutes=5),
    ),
    "without such a reason its message says what the API server refused": Case(
        ("InfrastructureFailed", f"attempt 1 did not start within 5m: {QUOTA}"),
        attempts=(replace(WAITING, end_message="attempt 1 is being started"),),
        refused_write=QUOTA,
        now=STARTED + timedelta(minutes=5),
    ),
    "what its pod waits for is named before a refusal": Case(
        ("InfrastructureFailed", "attempt 1 did not start within 5m: no node fits"),
        attempts=(
            replace(WAITING, problem_reason=Reason.UNSCHEDULABLE, end_message="no node fits"),
        ),
        refused_write=QUOTA,
        now=STARTED + timedelta(minutes=5),
    ),
    "an attempt that could not start until the timeout is the cluster's fault": Case(
        (
            "InfrastructureFailed",
            f"attempt 1 did not start within the 10m for all attempts: {QUOTA}",
        ),
        attempts=(WAITING,),
        refused_write=QUOTA,
        now=AFTER_TIMEOUT,
    ),
    "a refusal does not shorten the time of an attempt that runs": Case(
        ("TimedOut", "the 10m for all attempts ran out in attempt 1"),
        attempts=(RUNNING,),
        refused_write=QUOTA,
        now=AFTER_TIMEOUT,
    ),
}


def mission_of(case: Case) -> Mission:
    metadata: dict[str, Any] = {
        "name": "doctor",
        "namespace": "demo",
        "creationTimestamp": ACCEPTED.isoformat(),
        "annotations": {labels.ACCEPTED_AT: ACCEPTED.isoformat(), **case.annotations},
    }
    if case.is_deleting:
        metadata["deletionTimestamp"] = TIME.isoformat()
    return Mission.from_dict(
        {
            "apiVersion": "kais.io/v1",
            "kind": "Mission",
            "metadata": metadata,
            "spec": {
                "objective": "explain the pods",
                "cellRef": "solo",
                "startDeadline": "5m",
                "completion": {"timeout": "10m", "maxAttempts": case.max_attempts},
            },
        }
    )


def ledger_of(case: Case) -> Ledger:
    if case.ledger_outcome is None:
        return Ledger()
    run = models.Run.model_construct(outcome=case.ledger_outcome)
    return Ledger(run=run)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_outcome(case: Case) -> None:
    observed = MissionObserved(
        mission_of(case),
        pods=case.pods,
        ledger=ledger_of(case),
        refused_write=case.refused_write,
        failed_write=case.failed_write,
        history=AttemptHistory(case.attempts, restarting=case.restarting),
    )
    decided = outcome.decide_outcome(
        observed, case.attempts, obstacle=case.obstacle, held_back=case.held_back, now=case.now
    )
    actual = None if decided is None else (decided.outcome.value, decided.message)
    assert actual == case.expected
