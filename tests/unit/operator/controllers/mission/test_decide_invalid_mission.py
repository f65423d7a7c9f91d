"""What is decided about a Mission that cannot be read, case by case."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from kais import labels
from kais.reasons import Reason
from kais_operator.controllers.mission.decide import invalid_mission
from kais_operator.controllers.mission.decide.invalid_mission import InvalidMission
from kais_operator.controllers.outbox.decide import outbox
from kais_operator.planning.plan import Body
from kais_operator.planning.status_and_events import InvalidObject
from tests.fakes import teams
from tests.fakes.decisions import NOW, PlanSummary, stored, summarize

RUN_ID = "0f8fad5b-d9cb-469f-a165-70867728950e"
RUN = {labels.RUN_ID: RUN_ID}
AGO = NOW - timedelta(minutes=1)
RELEASE = "PatchMetadata Mission/doctor finalizers="
OUTBOX = f"ConfigMap/{outbox.name_of(outbox.key_of('demo', RUN_ID))}"


def observe(
    annotations: Body | None = None,
    *,
    deleted_at: datetime | None = None,
    finalizers: tuple[str, ...] = (labels.FINALIZER,),
    reason: Reason = Reason.INVALID,
) -> InvalidMission:
    deletion = {"deletionTimestamp": deleted_at.isoformat()} if deleted_at else {}
    metadata = {"annotations": annotations or {}, "finalizers": list(finalizers), **deletion}
    body = stored(teams.work(objective=None), **metadata)
    return InvalidMission(InvalidObject(body, "spec.objective: is required", reason), "kais-system")


CASES: dict[str, tuple[InvalidMission, PlanSummary]] = {
    "a mission that cannot be read says so": (
        observe(),
        PlanSummary((), {"Succeeded": "False Invalid"}),
    ),
    "its run goes on while it is not deleted": (
        observe(RUN),
        PlanSummary((), {"Succeeded": "False Invalid"}),
    ),
    "a mission whose owner is not known yet is read again": (
        observe(reason=Reason.STORE_UNAVAILABLE),
        PlanSummary((), {"Succeeded": "False StoreUnavailable"}, 30),
    ),
    "its deletion cancels its run, then releases it": (
        observe(RUN, deleted_at=NOW),
        PlanSummary(("CloseRun Cancelled", RELEASE), requeue_s=1),
    ),
    "its deletion closes a run that has ended with its own outcome": (
        observe({**RUN, labels.OUTCOME: "Failed"}, deleted_at=NOW),
        PlanSummary(("CloseRun Failed", RELEASE), requeue_s=1),
    ),
    "its deletion cancels a run whose outcome is no outcome": (
        observe({**RUN, labels.OUTCOME: "Great"}, deleted_at=NOW),
        PlanSummary(("CloseRun Cancelled", RELEASE), requeue_s=1),
    ),
    "its deletion only releases it when it has no run": (
        observe(deleted_at=NOW),
        PlanSummary((RELEASE,)),
    ),
    "its deletion goes to the outbox when the store has not answered in time": (
        observe(RUN, deleted_at=AGO),
        PlanSummary((f"Create {OUTBOX}", RELEASE)),
    ),
    "finalizers of others stay": (
        observe(deleted_at=NOW, finalizers=("other/one", labels.FINALIZER)),
        PlanSummary((f"{RELEASE}other/one",)),
    ),
    "a deletion that kais does not hold up closes nothing": (
        observe(RUN, deleted_at=NOW, finalizers=("other/one",)),
        PlanSummary(),
    ),
}


@pytest.mark.parametrize(("observed", "expected"), CASES.values(), ids=CASES)
def test_an_invalid_mission(observed: InvalidMission, expected: PlanSummary) -> None:
    assert summarize(invalid_mission.decide_invalid_mission(observed, NOW)) == expected
