"""What is decided about a Mission as a whole, case by case."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from kais import labels
from kais.resources.cell import Cell
from kais.resources.mission import Mission
from kais_operator.controllers.mission.decide import mission, run_history_annotation
from kais_operator.controllers.mission.decide.entrypoint import MissionTeam
from kais_operator.controllers.mission.decide.mission_observed import Ledger, MissionObserved
from kais_operator.controllers.outbox.decide import outbox
from kais_operator.planning.plan import Body, InjectKnowledge, PatchMetadata
from knowledge_client import models
from tests.fakes import teams
from tests.fakes.decisions import NOW, PlanSummary, created, stored, summarize

SUSPENDED = {labels.RECONCILE: labels.RECONCILE_SUSPENDED}
AGO = NOW - timedelta(minutes=1)


def condition(type_: str, status: str = "True") -> Body:
    since = {"lastTransitionTime": AGO.isoformat(), "observedGeneration": 1}
    return {"type": type_, "status": status, "reason": type_, "message": type_, **since}


def cell(*, is_ready: bool = True) -> Cell:
    status = {"conditions": [condition("Ready", str(is_ready)), condition("Registered")]}
    return Cell.from_dict({**stored(teams.lone_cell()), "status": status})


TEAM = MissionTeam(cells={"solo": cell()})


def declared(annotations: Body | None = None, *, max_attempts: int = 2, **metadata: Any) -> Mission:
    body = teams.work(formationRef=None, cellRef="solo", completion={"maxAttempts": max_attempts})
    created_at = {"creationTimestamp": AGO.isoformat()}
    return Mission.from_dict(stored(body, annotations=annotations or {}, **created_at, **metadata))


NEW = MissionObserved(declared(), TEAM)
FIRST_PLAN = mission.decide_mission(NEW, AGO)
(STAMP,) = [action for action in FIRST_PLAN.actions if isinstance(action, PatchMetadata)]
STAMPED = {key: value for key, value in STAMP.annotations.items() if value is not None}
RUN_ID = STAMPED[labels.RUN_ID]
JOB = {**created(FIRST_PLAN, "Job"), "status": {"startTime": AGO.isoformat()}}
JOB["metadata"]["creationTimestamp"] = AGO.isoformat()
RUN = models.RunDetail(
    run_id=RUN_ID, namespace="demo", scope="realm:demo", mission="doctor", opened_at=AGO
)
OPENED = Ledger(run=RUN, is_opened=True)
CLOSED = Ledger(run=RUN.model_copy(update={"outcome": "Succeeded"}), is_opened=True)
EXTRACTED = replace(CLOSED, extraction=models.Extraction(run_id=RUN_ID, state="done"))


def begun(
    *children: Body,
    annotations: Body | None = None,
    deleted_at: datetime | None = None,
    max_attempts: int = 2,
    **fields: Any,
) -> MissionObserved:
    """A mission whose run has begun, with these Jobs and pods."""
    metadata = {"deletionTimestamp": deleted_at.isoformat()} if deleted_at else {}
    subject = declared(
        {**STAMPED, **(annotations or {})},
        max_attempts=max_attempts,
        finalizers=[labels.FINALIZER],
        **metadata,
    )
    jobs = [body for body in children if body["kind"] == "Job"]
    pods = [body for body in children if body["kind"] == "Pod"]
    history = run_history_annotation.read_history(subject, jobs, pods, {}, NOW)
    observed = MissionObserved(subject, TEAM, jobs, pods, ledger=OPENED, history=history)
    return replace(observed, **fields)


def job_ended(type_: str) -> Body:
    return {**JOB, "status": {**JOB["status"], "conditions": [condition(type_)]}}


def pod(phase: str, **state: Body) -> Body:
    owner = {
        "kind": "Job",
        "name": JOB["metadata"]["name"],
        "uid": JOB["metadata"]["uid"],
        "controller": True,
    }
    metadata = {
        "name": "doctor-1-abc",
        "namespace": "demo",
        "ownerReferences": [owner],
        "labels": JOB["spec"]["template"]["metadata"]["labels"],
    }
    status = {"phase": phase, "containerStatuses": [{"name": "task", "state": state}]}
    return {**stored({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}), "status": status}


RUNNING_POD = pod("Running", running={"startedAt": AGO.isoformat()})
ENDED_POD = pod("Succeeded", terminated={"exitCode": 0, "message": "done"})
FAILED_POD = pod("Failed", terminated={"exitCode": 1, "message": "no such pod"})
JUST_STARTED = begun(JOB, RUNNING_POD)
RECORD = {labels.ATTEMPTS: run_history_annotation.serialise(JUST_STARTED.history.attempts)}
WAITING_FOR_MAP = begun(JOB, RUNNING_POD, annotations=RECORD)
(KNOWLEDGE_MAP,) = [
    stored(action.map_body)
    for action in mission.decide_mission(WAITING_FOR_MAP, NOW).actions
    if isinstance(action, InjectKnowledge)
]
MAPS = {JOB["metadata"]["name"]: KNOWLEDGE_MAP}
WORKING = replace(WAITING_FOR_MAP, maps=MAPS)
(ENDING,) = [
    action.annotations
    for action in mission.decide_mission(begun(job_ended("Complete"), ENDED_POD), NOW).actions
    if isinstance(action, PatchMetadata)
]
SUCCEEDED = {key: value for key, value in ENDING.items() if value is not None}

STAMP_RUN = (
    "PatchMetadata Mission/doctor +kais.io/accepted-at +kais.io/run-id +kais.io/run-object"
    " +kais.io/traceparent"
    " finalizers=kais.io/finalizer"
)
STAMP_HELD_RUN = STAMP_RUN.replace(" +kais.io/run-id", " +kais.io/held-until +kais.io/run-id", 1)
RECORD_ATTEMPT = "PatchMetadata Mission/doctor +kais.io/attempts"
STAMP_END = "PatchMetadata Mission/doctor -kais.io/attempts +kais.io/ending +kais.io/outcome"
RELEASE = "PatchMetadata Mission/doctor finalizers="
EVENTS = ("EmitEvent Normal Started", "EmitEvent Normal Finished")
OUTBOX = f"ConfigMap/{outbox.name_of(outbox.key_of('demo', RUN_ID))}"
RECORDED = {"Recorded": "True Recorded"}
NOTHING_LEFT = {**RECORDED, "KnowledgeExtracted": "True NothingToExtract"}


def pending(reason: str) -> dict[str, str]:
    """The conditions of a mission whose attempt has not started, and why."""
    return {
        "Started": f"False {reason}",
        "ChecksPassed": "True NoChecks",
        "KnowledgeExtracted": "False ExtractionPending",
        "Recorded": "False RunOpen",
        "Succeeded": f"Unknown {reason}",
    }


def working(reason: str) -> dict[str, str]:
    """The conditions of a mission of which an attempt has started."""
    return {**pending(reason), "Started": "True Started"}


def over(succeeded: str) -> dict[str, str]:
    """The conditions of a mission that has ended, before the ledger knows it."""
    return {**working(""), "Recorded": "False RecordingPending", "Succeeded": succeeded}


FINISHED = over("True Finished")

CASES: dict[str, tuple[MissionObserved, PlanSummary]] = {
    "a new mission is stamped before its run is opened and its Job is created": (
        NEW,
        PlanSummary(
            (STAMP_RUN, "PutRun open", "Create Job/doctor-a1"), pending("WaitingForPods"), 240
        ),
    ),
    "a new mission whose cell does not exist is stamped and waits": (
        replace(NEW, team=MissionTeam()),
        PlanSummary((STAMP_RUN, "EmitEvent Warning CellNotFound"), pending("CellNotFound"), 30),
    ),
    "a new mission waits for a cell that is not ready": (
        replace(NEW, team=MissionTeam(cells={"solo": cell(is_ready=False)})),
        PlanSummary((STAMP_RUN, "PutRun open"), pending("WaitingForCells"), 30),
    ),
    "a suspended mission starts no attempt": (
        replace(NEW, mission=declared(SUSPENDED)),
        PlanSummary((STAMP_HELD_RUN, "PutRun open"), pending("Suspended")),
    ),
    "a mission without a run is released when it is deleted": (
        replace(
            NEW, mission=declared(deletionTimestamp=NOW.isoformat(), finalizers=[labels.FINALIZER])
        ),
        PlanSummary((RELEASE,)),
    ),
    "a mission that nothing holds is left alone when it is deleted": (
        replace(NEW, mission=declared(deletionTimestamp=NOW.isoformat(), finalizers=["other/one"])),
        PlanSummary(),
    ),
    "a run whose Job is missing gets it": (
        begun(),
        PlanSummary(("Create Job/doctor-a1",), pending("WaitingForPods"), 240),
    ),
    "a run that the ledger does not know is opened": (
        replace(WORKING, ledger=Ledger()),
        PlanSummary(("PutRun open", "EmitEvent Normal Started"), working("Running"), 540),
    ),
    "an attempt that has started is recorded once": (
        replace(JUST_STARTED, maps=MAPS),
        PlanSummary((RECORD_ATTEMPT, "EmitEvent Normal Started"), working("Running"), 540),
    ),
    "an attempt without its knowledge gets it": (
        WAITING_FOR_MAP,
        PlanSummary(
            ("InjectKnowledge ConfigMap/doctor-a1-knowledge", "EmitEvent Normal Started"),
            working("Running"),
            540,
        ),
    ),
    "an attempt that works is waited for until its deadline": (
        WORKING,
        PlanSummary(("EmitEvent Normal Started",), working("Running"), 540),
    ),
    "a Job without a pod is asked for its cause soon": (
        replace(begun(JOB), maps=MAPS),
        PlanSummary((), pending("WaitingForPods"), 15),
    ),
    "the end of the task ends the run, on the mission first": (
        begun(job_ended("Complete"), ENDED_POD),
        PlanSummary((STAMP_END, *EVENTS), FINISHED, 1),
    ),
    "a failed attempt is recorded before the next one starts": (
        begun(job_ended("Failed"), FAILED_POD),
        PlanSummary(
            (
                "PatchMetadata Mission/doctor +kais.io/attempts",
                "Create Job/doctor-a2",
                "EmitEvent Normal Started",
                "EmitEvent Normal Retrying",
            ),
            working("Retrying"),
            540,
        ),
    ),
    "the failure of the last attempt ends the run": (
        begun(job_ended("Failed"), FAILED_POD, max_attempts=1),
        PlanSummary(
            (STAMP_END, "EmitEvent Normal Started", "EmitEvent Warning TaskFailed"),
            over("False TaskFailed"),
            1,
        ),
    ),
    "an abort ends the run and deletes the Job": (
        begun(JOB, RUNNING_POD, annotations={labels.ABORT: "now"}, maps=MAPS),
        PlanSummary(
            (STAMP_END, "Delete Job/doctor-a1", "EmitEvent Normal Started"),
            over("False Cancelled"),
            1,
        ),
    ),
    "a deletion ends the run and deletes the Job": (
        begun(JOB, RUNNING_POD, deleted_at=NOW, maps=MAPS),
        PlanSummary(
            (STAMP_END, "Delete Job/doctor-a1", "EmitEvent Normal Started"),
            over("False Cancelled"),
            1,
        ),
    ),
    "the ledger is told the end, asked for the facts, and the mission released": (
        begun(annotations=SUCCEEDED),
        PlanSummary(
            (
                f"RecordEpisodes {RUN_ID}",
                "PutRun Succeeded",
                "RefreshStatistics demo",
                f"RequestExtraction {RUN_ID}",
                RELEASE,
                *EVENTS,
            ),
            FINISHED,
            15,
        ),
    ),
    "an end that the ledger knows releases the mission, and the extraction is polled": (
        replace(begun(annotations=SUCCEEDED), ledger=replace(CLOSED, is_extraction_accepted=True)),
        PlanSummary((RELEASE, *EVENTS), {**FINISHED, **RECORDED}, 15),
    ),
    "a run whose facts are extracted is not looked at again": (
        replace(
            begun(annotations=SUCCEEDED), ledger=replace(EXTRACTED, is_extraction_counted=True)
        ),
        PlanSummary((RELEASE, *EVENTS), {**FINISHED, **NOTHING_LEFT}),
    ),
    "another outcome in the ledger replaces that of the mission": (
        replace(begun(annotations={**SUCCEEDED, labels.OUTCOME: "Failed"}), ledger=EXTRACTED),
        PlanSummary((STAMP_END, *EVENTS), {**FINISHED, **NOTHING_LEFT}, 1),
    ),
    "an end that the store refuses holds the mission": (
        replace(begun(annotations=SUCCEEDED), ledger=replace(OPENED, refusal="no such scope")),
        PlanSummary(EVENTS, {**FINISHED, "Recorded": "False RecordingRefused"}, 3600),
    ),
    "a deletion while the store is away puts the end into the outbox": (
        begun(
            annotations=SUCCEEDED,
            deleted_at=AGO,
            ledger=replace(OPENED, problem="no answer"),
            operator_namespace="kais-system",
        ),
        PlanSummary((f"Create {OUTBOX}", RELEASE)),
    ),
}


@pytest.mark.parametrize(("observed", "expected"), CASES.values(), ids=CASES)
def test_a_mission(observed: MissionObserved, expected: PlanSummary) -> None:
    assert summarize(mission.decide_mission(observed, NOW)) == expected
