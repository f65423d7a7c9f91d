"""What is decided about a Formation, case by case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kais import labels
from kais.resources.formation import Formation
from kais_operator.controllers.formation.decide import formation
from kais_operator.controllers.formation.decide.formation import FormationObserved
from kais_operator.planning.plan import Body
from tests.fakes import teams
from tests.fakes.decisions import NOW, PlanSummary, created, stored, summarize

DELETING = {"deletionTimestamp": NOW.isoformat()}
SUSPENDED = {"annotations": {labels.RECONCILE: labels.RECONCILE_SUSPENDED}}
FOREIGN: Body = {"ownerReferences": []}
LEAD, EXTRA = "team-lead-0", "team-lead-1"


def team(*, metadata: Body | None = None, status: Body | None = None, **spec: Any) -> Formation:
    body = stored(teams.team(**spec), **(metadata or {}))
    return Formation.from_dict({**body, "status": status or {}})


def ready(cell: Body) -> Body:
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Standby",
        "message": "it rests",
        "observedGeneration": 1,
    }
    return {
        **cell,
        "status": {"conditions": [{**condition, "lastTransitionTime": NOW.isoformat()}]},
    }


def with_metadata(body: Body, **metadata: Any) -> Body:
    return {**body, "metadata": {**body["metadata"], **metadata}}


NEW = FormationObserved(team(), {})
FIRST_PLAN = formation.decide_formation(NEW, NOW)
CELL, ROUTES = created(FIRST_PLAN, "Cell"), created(FIRST_PLAN, "ConfigMap")
OBSERVED = FormationObserved(team(), {LEAD: ready(CELL)}, ROUTES)
READY_STATUS = formation.decide_formation(OBSERVED, NOW).status
SURPLUS = with_metadata(CELL, name=EXTRA, uid="uid-surplus")
WORKSPACE = {"size": "1Gi"}
CLAIM = created(
    formation.decide_formation(replace(NEW, formation=team(workspace=WORKSPACE)), NOW),
    "PersistentVolumeClaim",
)

LARGE = [{"name": f"lead-{index}", "replicas": 100, "spec": teams.task()} for index in range(11)]
READY = {"Applied": "True Applied", "CellsReady": "True CellsReady", "Ready": "True Ready"}
WAITING = {**READY, "CellsReady": "False WaitingForCells", "Ready": "False WaitingForCells"}


def blocked(reason: str) -> dict[str, str]:
    """The conditions of a team that waits for its cells and of which something is not applied."""
    return {**WAITING, "Applied": f"False {reason}", "Ready": f"False {reason}"}


CASES: dict[str, tuple[FormationObserved, PlanSummary]] = {
    "a new team gets its topology map before its cell": (
        NEW,
        PlanSummary(("Create ConfigMap/topology-team", "Create Cell/team-lead-0"), WAITING),
    ),
    "a team that is as its spec says is ready, and an Event says so": (
        OBSERVED,
        PlanSummary(("EmitEvent Normal Ready",), READY),
    ),
    "a team that was ready before gets no second Event": (
        replace(OBSERVED, formation=team(status=READY_STATUS)),
        PlanSummary((), READY),
    ),
    "a team waits for a cell that is not ready": (
        replace(OBSERVED, cells={LEAD: CELL}),
        PlanSummary((), WAITING),
    ),
    "a team waits for a cell that is being deleted": (
        replace(OBSERVED, cells={LEAD: with_metadata(CELL, **DELETING)}),
        PlanSummary((), blocked("Deleting"), 5),
    ),
    "a cell of another owner is left alone, and its name is taken": (
        replace(OBSERVED, cells={LEAD: with_metadata(CELL, **FOREIGN, labels={})}),
        PlanSummary(("EmitEvent Warning NameTaken",), blocked("NameTaken"), 30),
    ),
    "a cell without its owner is adopted": (
        replace(OBSERVED, cells={LEAD: with_metadata(CELL, **FOREIGN)}),
        PlanSummary(("PatchMetadata Cell/team-lead-0 owners=team",), WAITING),
    ),
    "a cell that somebody changed is applied again": (
        replace(
            OBSERVED, cells={LEAD: {**ready(CELL), "spec": {**CELL["spec"], "mode": "Service"}}}
        ),
        PlanSummary(
            ("Apply Cell/team-lead-0", "EmitEvent Warning EditUndone", "EmitEvent Normal Ready"),
            READY,
        ),
    ),
    "a topology map that somebody changed is applied again": (
        replace(OBSERVED, routes={**ROUTES, "data": {}}),
        PlanSummary(
            (
                "Apply ConfigMap/topology-team",
                "EmitEvent Warning EditUndone",
                "EmitEvent Normal Ready",
            ),
            READY,
        ),
    ),
    "a topology map that cannot be changed is deleted": (
        replace(OBSERVED, routes={**ROUTES, "data": {}, "immutable": True}),
        PlanSummary(
            ("Delete ConfigMap/topology-team",),
            {
                "Applied": "False Deleting",
                "CellsReady": "True CellsReady",
                "Ready": "False Deleting",
            },
            5,
        ),
    ),
    "a cell that the spec no longer asks for is deleted": (
        replace(OBSERVED, cells={LEAD: ready(CELL), EXTRA: SURPLUS}),
        PlanSummary(("Delete Cell/team-lead-1", "EmitEvent Normal Ready"), READY),
    ),
    "a surplus cell of another owner stays": (
        replace(OBSERVED, cells={LEAD: ready(CELL), EXTRA: with_metadata(SURPLUS, **FOREIGN)}),
        PlanSummary(("EmitEvent Normal Ready",), READY),
    ),
    "a shared workspace is created before the cells": (
        replace(NEW, formation=team(workspace=WORKSPACE)),
        PlanSummary(
            (
                "Create ConfigMap/topology-team",
                "Create PersistentVolumeClaim/workspace-team",
                "Create Cell/team-lead-0",
            ),
            WAITING,
        ),
    ),
    "a workspace that is there stays": (
        replace(OBSERVED, formation=team(workspace=WORKSPACE), claim=CLAIM),
        PlanSummary(("EmitEvent Normal Ready",), READY),
    ),
    "a hub that is no cell invalidates the topology": (
        replace(OBSERVED, formation=team(topology={"type": "star", "hub": "nobody"})),
        PlanSummary(
            ("Apply ConfigMap/topology-team", "EmitEvent Warning TopologyInvalid"),
            {
                "Applied": "False TopologyInvalid",
                "CellsReady": "True CellsReady",
                "Ready": "False TopologyInvalid",
            },
        ),
    ),
    "a team that is too large writes nothing": (
        replace(NEW, formation=team(cells=LARGE)),
        PlanSummary(
            ("EmitEvent Warning TooManyCells",),
            {
                "Applied": "False TooManyCells",
                "CellsReady": "False TooManyCells",
                "Ready": "False TooManyCells",
            },
        ),
    ),
    "a suspended team creates and deletes nothing": (
        replace(NEW, formation=team(metadata=SUSPENDED), cells={EXTRA: SURPLUS}),
        PlanSummary((), blocked("Suspended")),
    ),
    "a team that is being deleted is left to the garbage collector": (
        replace(NEW, formation=team(metadata=DELETING)),
        PlanSummary(),
    ),
}


@pytest.mark.parametrize(("observed", "expected"), CASES.values(), ids=CASES)
def test_a_formation(observed: FormationObserved, expected: PlanSummary) -> None:
    assert summarize(formation.decide_formation(observed, NOW)) == expected
