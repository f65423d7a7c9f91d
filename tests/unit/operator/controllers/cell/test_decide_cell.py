"""What is decided about a Cell, case by case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kais import labels
from kais.resources.cell import Cell
from kais_operator.controllers.cell.decide import cell
from kais_operator.controllers.cell.decide.cell import CellObserved
from kais_operator.controllers.cell.decide.cell_identity import CellInFormation
from kais_operator.controllers.cell.decide.service_workload_actions import Children
from kais_operator.controllers.cell.decide.spawn_limits import Ancestry
from kais_operator.planning.plan import Body
from tests.fakes import teams
from tests.fakes.decisions import NOW, PlanSummary, created, stored, summarize

SERVICE = {"mode": "Service"}
SUSPENDED = {"annotations": {labels.RECONCILE: labels.RECONCILE_SUSPENDED}}
SCALED_DOWN = {"annotations": {labels.SCALED_DOWN: labels.SCALED_DOWN_YES}}
DELETING = {"deletionTimestamp": NOW.isoformat()}


def declared(name: str = "solo", *, metadata: Body | None = None, **spec: Any) -> Cell:
    return Cell.from_dict(stored(teams.lone_cell(name, **spec), **(metadata or {})))


def observe(*, metadata: Body | None = None, **spec: Any) -> CellObserved:
    """A Cell that has nothing yet, at its first look."""
    return CellObserved(CellInFormation(declared(metadata=metadata, **spec), None), None)


def borrowing(*, is_allowed: bool | None) -> CellObserved:
    """A Cell that borrows an account; None when the account does not exist."""
    observed = observe(serviceAccountName="shared")
    if is_allowed is None:
        return observed
    annotations = {labels.ALLOW_CELLS: "true"} if is_allowed else {}
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "shared", "namespace": "demo"},
    }
    return replace(observed, account=stored(account, annotations=annotations), is_registered=True)


def pod(*, is_ready: bool) -> Body:
    condition = {"type": "Ready", "status": "True" if is_ready else "False"}
    status = {"phase": "Running", "conditions": [condition]}
    metadata = {"name": "cell-solo-abc12", "namespace": "demo"}
    return {**stored({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}), "status": status}


NEW = observe()
ACCOUNT = created(cell.decide_cell(NEW, NOW), "ServiceAccount")
TASK = replace(NEW, account=ACCOUNT, is_registered=True)
FOREIGN_ACCOUNT = {
    **ACCOUNT,
    "metadata": {**ACCOUNT["metadata"], "ownerReferences": [], "labels": {}},
}
ORPHANED_ACCOUNT = {**ACCOUNT, "metadata": {**ACCOUNT["metadata"], "ownerReferences": []}}

NEW_SERVICE = replace(observe(**SERVICE), account=ACCOUNT)
SERVICE_PLAN = cell.decide_cell(NEW_SERVICE, NOW)
ROLLED_OUT = {
    **created(SERVICE_PLAN, "Deployment"),
    "status": {"observedGeneration": 1, "updatedReplicas": 1},
}
REFUSED_ROLLOUT = {
    **ROLLED_OUT,
    "status": {
        "conditions": [{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}]
    },
}
WORKLOADS = Children(ROLLED_OUT, created(SERVICE_PLAN, "Service"), (pod(is_ready=True),))
RUNNING = replace(NEW_SERVICE, is_registered=True, workloads=WORKLOADS)
ROOT = declared(
    "root",
    recursion={"spawnPolicy": "disabled"},
    metadata={"creationTimestamp": "2026-01-01T10:00:00Z"},
)
SPAWNED = declared(parentRef="root")
ANCESTRY = Ancestry((ROOT, SPAWNED), has_policy=True)


def with_workloads(observed: CellObserved, **changes: Any) -> CellObserved:
    return replace(observed, workloads=replace(observed.workloads, **changes))


def blocked(reason: str) -> dict[str, str]:
    """The conditions of a cell whose account or spawning stands in its way."""
    status = f"False {reason}"
    return {
        "Applied": status,
        "PodReady": status,
        "Registered": "False NotRegistered",
        "Ready": status,
    }


RESTING = {
    "Applied": "True Applied",
    "PodReady": "True Standby",
    "Registered": "True Registered",
    "Ready": "True Standby",
}
UNREGISTERED = {"Registered": "False NotRegistered"}
WITHOUT_STORE = {"Registered": "False StoreUnavailable"}
SUSPENSION = {"Applied": "False Suspended", "Ready": "False Suspended"}
READY = {**RESTING, "PodReady": "True PodRunning", "Ready": "True Ready"}
IDLE = {**RESTING, "PodReady": "True ScaledDown", "Ready": "True ScaledDown"}
WAITING = {**RESTING, "PodReady": "False WaitingForPods", "Ready": "False WaitingForPods"}
REFUSED = {**RESTING, "PodReady": "False PodNotCreated", "Ready": "False PodNotCreated"}
UNSUPPORTED = dict.fromkeys(RESTING, "False NotYetSupported")

CASES: dict[str, tuple[CellObserved, PlanSummary]] = {
    "a new task cell gets an account, and no pod": (
        NEW,
        PlanSummary(
            ("Create ServiceAccount/solo", "EmitEvent Normal Standby"), {**RESTING, **UNREGISTERED}
        ),
    ),
    "an account that is there is registered": (
        replace(TASK, is_registered=False),
        PlanSummary(
            ("RegisterPrincipal demo/solo", "EmitEvent Normal Standby"), {**RESTING, **UNREGISTERED}
        ),
    ),
    "a task cell with a registered account rests ready": (
        TASK,
        PlanSummary(("EmitEvent Normal Standby",), RESTING),
    ),
    "a store that is away keeps no cell from being ready": (
        replace(TASK, is_registered=False, store_problem="no answer"),
        PlanSummary(
            ("RegisterPrincipal demo/solo", "EmitEvent Normal Standby"),
            {**RESTING, **WITHOUT_STORE},
        ),
    ),
    "an account of somebody else is left alone, and its name is taken": (
        replace(NEW, account=FOREIGN_ACCOUNT),
        PlanSummary(("EmitEvent Warning NameTaken",), blocked("NameTaken"), 30),
    ),
    "an account without its owner is adopted": (
        replace(NEW, account=ORPHANED_ACCOUNT),
        PlanSummary(
            ("PatchMetadata ServiceAccount/solo owners=solo", "EmitEvent Normal Standby"),
            {**RESTING, **UNREGISTERED},
        ),
    ),
    "a borrowed account that does not exist is waited for": (
        borrowing(is_allowed=None),
        PlanSummary(("EmitEvent Warning AccountNotAllowed",), blocked("AccountNotAllowed"), 30),
    ),
    "a borrowed account that does not allow cells is refused": (
        borrowing(is_allowed=False),
        PlanSummary(("EmitEvent Warning AccountNotAllowed",), blocked("AccountNotAllowed"), 30),
    ),
    "a borrowed account that allows cells is used": (
        borrowing(is_allowed=True),
        PlanSummary(("EmitEvent Normal Standby",), RESTING, 300),
    ),
    "a cell that no cell may have created gets nothing": (
        replace(TASK, cell_in_formation=CellInFormation(SPAWNED, None), ancestry=ANCESTRY),
        PlanSummary(("EmitEvent Warning SpawnRefused",), blocked("SpawnRefused"), 30),
    ),
    "a service cell that no cell may have created is stopped": (
        replace(
            RUNNING,
            cell_in_formation=CellInFormation(declared(parentRef="root", **SERVICE), None),
            ancestry=ANCESTRY,
        ),
        PlanSummary(
            ("Apply Deployment/solo", "EmitEvent Warning SpawnRefused"), blocked("SpawnRefused"), 30
        ),
    ),
    "a cell with a mind is not supported, and what it had is deleted": (
        replace(
            RUNNING,
            cell_in_formation=observe(
                mode="Service",
                container=None,
                mind={"provider": "ollama", "model": "m", "systemPrompt": "think"},
                tools=[{"name": "shell"}],
            ).cell_in_formation,
        ),
        PlanSummary(
            ("Delete Service/solo", "Delete Deployment/solo", "EmitEvent Warning NotYetSupported"),
            UNSUPPORTED,
        ),
    ),
    "a suspended cell creates nothing": (
        observe(metadata=SUSPENDED),
        PlanSummary((), {**RESTING, **UNREGISTERED, **SUSPENSION}),
    ),
    "a cell that is being deleted is left to the garbage collector": (
        observe(metadata=DELETING),
        PlanSummary(),
    ),
    "a service cell waits for its account before its pod": (
        observe(**SERVICE),
        PlanSummary(
            ("Create ServiceAccount/solo",),
            {**WAITING, **UNREGISTERED, "Applied": "Unknown Reconciling"},
        ),
    ),
    "a service cell is registered before its Deployment is created": (
        NEW_SERVICE,
        PlanSummary(
            ("RegisterPrincipal demo/solo", "Create Deployment/solo", "Create Service/solo"),
            {**WAITING, **UNREGISTERED},
        ),
    ),
    "a store that is away keeps no Deployment waiting": (
        replace(NEW_SERVICE, store_problem="no answer"),
        PlanSummary(
            ("Create Deployment/solo", "Create Service/solo", "RegisterPrincipal demo/solo"),
            {**WAITING, **WITHOUT_STORE},
        ),
    ),
    "a service cell with a ready pod is ready": (
        RUNNING,
        PlanSummary(("EmitEvent Normal Ready",), READY),
    ),
    "a service cell waits for a pod that is not ready": (
        with_workloads(RUNNING, pods=(pod(is_ready=False),)),
        PlanSummary((), WAITING),
    ),
    "a pod that the cluster refuses to create is reported": (
        with_workloads(RUNNING, deployment=REFUSED_ROLLOUT, pods=()),
        PlanSummary(("EmitEvent Warning PodNotCreated",), REFUSED),
    ),
    "a service cell whose team is scaled down rests": (
        replace(
            RUNNING, cell_in_formation=observe(metadata=SCALED_DOWN, **SERVICE).cell_in_formation
        ),
        PlanSummary(("Apply Deployment/solo", "EmitEvent Normal ScaledDown"), IDLE),
    ),
    "a cell that became a task loses its Deployment": (
        replace(TASK, workloads=WORKLOADS),
        PlanSummary(
            ("Delete Service/solo", "Delete Deployment/solo", "EmitEvent Normal Standby"), RESTING
        ),
    ),
}


@pytest.mark.parametrize(("observed", "expected"), CASES.values(), ids=CASES)
def test_a_cell(observed: CellObserved, expected: PlanSummary) -> None:
    assert summarize(cell.decide_cell(observed, NOW)) == expected
