"""What happens to fields that another client adds to a workload of a cell, case by case."""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any

import pytest

from kais import labels
from kais_operator.controllers.cell.decide import workload_drift
from kais_operator.planning.plan import Body, Plan
from tests.fakes.decisions import NOW, PlanSummary, stored, summarize

DESIRED: Body = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "solo", "namespace": "demo"},
    "spec": {
        "replicas": 1,
        "template": {
            "spec": {"containers": [{"name": "cell", "image": "w:1", "env": [{"name": "A"}]}]}
        },
    },
}
CELL = DESIRED["spec"]["template"]["spec"]["containers"][0]
REMOVED = ("PatchSpec Deployment/solo", "EmitEvent Warning AdditionRemoved")
HOST_NETWORK = "spec.template.spec.hostNetwork"


def live(*, removals: str | None = None, containers: list[Body] | None = None, **pod: Any) -> Body:
    """The Deployment with fields that another client added to its pods."""
    body = copy.deepcopy(DESIRED)
    body["spec"]["template"]["spec"] |= {"containers": containers or [CELL], **pod}
    annotations = {} if removals is None else {labels.REMOVED_ADDITIONS: removals}
    return stored(body, annotations=annotations)


def streak(count: int, *, ago: timedelta) -> str:
    return f"{count} {(NOW - ago).strftime('%Y-%m-%dT%H:%M:%SZ')}"


def contested(*, removals: str) -> Body:
    return live(removals=removals, hostNetwork=True)


MINUTE = timedelta(minutes=1)
CASES: dict[str, tuple[Body, tuple[str, ...], PlanSummary]] = {
    "a workload as desired is left alone": (live(), (), PlanSummary()),
    "a default of the API server is no addition": (
        live(dnsPolicy="ClusterFirst", restartPolicy="Always"),
        (),
        PlanSummary(),
    ),
    "a field with another value than the default is removed": (
        live(dnsPolicy="None"),
        (),
        PlanSummary(REMOVED),
    ),
    "access to the host is removed": (live(hostNetwork=True), (), PlanSummary(REMOVED)),
    "another container is removed": (
        live(containers=[CELL, {"name": "proxy"}]),
        (),
        PlanSummary(REMOVED),
    ),
    "another variable is removed": (
        live(containers=[{**CELL, "env": [{"name": "A"}, {"name": "LD_PRELOAD"}]}]),
        (),
        PlanSummary(REMOVED),
    ),
    "a path that the installation allows stays": (
        live(hostNetwork=True),
        (HOST_NETWORK,),
        PlanSummary(),
    ),
    "a pattern allows every path that matches": (
        live(containers=[CELL, {"name": "proxy"}]),
        ("spec.template.spec.containers[pro*]",),
        PlanSummary(),
    ),
    "the second removal comes at once": (
        contested(removals=streak(1, ago=MINUTE)),
        (),
        PlanSummary(REMOVED),
    ),
    "after three removals the next one waits five minutes": (
        contested(removals=streak(3, ago=MINUTE)),
        (),
        PlanSummary(requeue_s=240),
    ),
    "with each further removal the pause is twice as long": (
        contested(removals=streak(5, ago=MINUTE)),
        (),
        PlanSummary(requeue_s=19 * 60),
    ),
    "a pause is at most an hour": (
        contested(removals=streak(50, ago=MINUTE)),
        (),
        PlanSummary(requeue_s=59 * 60),
    ),
    "after the pause it is removed again": (
        contested(removals=streak(3, ago=5 * MINUTE)),
        (),
        PlanSummary(REMOVED),
    ),
    "removals long ago do not count": (
        contested(removals=streak(50, ago=timedelta(hours=3))),
        (),
        PlanSummary(REMOVED),
    ),
    "removals in the future do not count": (
        contested(removals=streak(50, ago=-MINUTE)),
        (),
        PlanSummary(REMOVED),
    ),
    "an annotation that was edited does not count": (
        contested(removals="many times"),
        (),
        PlanSummary(REMOVED),
    ),
}


@pytest.mark.parametrize(("workload", "allowed", "expected"), CASES.values(), ids=CASES)
def test_additions_to_a_workload(
    workload: Body, allowed: tuple[str, ...], expected: PlanSummary
) -> None:
    decision, _ = workload_drift.decide_removal(DESIRED, workload, allowed=allowed, now=NOW)
    assert summarize(Plan(decision.actions, requeue_after=decision.requeue_after)) == expected
