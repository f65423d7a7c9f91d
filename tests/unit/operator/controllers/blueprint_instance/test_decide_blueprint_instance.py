"""What is decided about a use of a Blueprint, case by case."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kais import conditions, labels
from kais.blueprint_rendering import Violations, render_blueprint
from kais.conditions import ConditionType, Reason
from kais.resources.blueprint_instance import BlueprintInstance
from kais.resources.blueprint_revision import BlueprintRevision
from kais_operator.controllers.blueprint_instance.decide import blueprint_instance
from kais_operator.controllers.blueprint_instance.decide.instance_observed import (
    BlueprintInstanceObserved,
    Choice,
)
from kais_operator.planning.plan import Body, Create, PatchMetadata
from tests.fakes import blueprints
from tests.fakes.decisions import NOW, PlanSummary, stored, summarize

SUSPENDED = {labels.RECONCILE: labels.RECONCILE_SUSPENDED}


def use(
    annotations: Body | None = None, *, pins: Body | None = None, **spec: Any
) -> BlueprintInstance:
    metadata = {"annotations": annotations or {}, "labels": pins or {}}
    return BlueprintInstance.from_dict(stored(blueprints.instance(**spec), **metadata))


def chosen(**template: Any) -> BlueprintInstanceObserved:
    """A new use of a Blueprint whose first revision serves and renders."""
    head = blueprints.blueprint(**template)
    rendered = render_blueprint(
        head["spec"],
        {"topic": "pods"},
        blueprint="team",
        revision=1,
        instance="use",
        namespace="demo",
    )
    revision = BlueprintRevision.from_dict(stored(blueprints.revision(of=head)))
    return BlueprintInstanceObserved(use(), Choice(1), revision, rendered)


def begun(
    new: BlueprintInstanceObserved,
    *,
    annotations: dict[str, str] | None = None,
    is_ready: bool = True,
    **spec: Any,
) -> BlueprintInstanceObserved:
    """The same use after its first pass: stamped, and with its children."""
    plan = blueprint_instance.decide_blueprint_instance(new, NOW)
    (patch,) = [action for action in plan.actions if isinstance(action, PatchMetadata)]
    carried = {key: value for key, value in patch.annotations.items() if value is not None}
    formation, *missions = [
        stored(action.body) for action in plan.actions if isinstance(action, Create)
    ]
    if is_ready:
        ready = {"type": "CellsReady", "status": "True", "reason": "CellsReady", "message": "all"}
        since = {"lastTransitionTime": NOW.isoformat(), "observedGeneration": 1}
        formation["status"] = {"observedGeneration": 1, "conditions": [{**ready, **since}]}
    return replace(
        new,
        instance=use({**carried, **(annotations or {})}, pins=dict(patch.labels), **spec),
        formation=formation,
        mission=missions[0] if missions else None,
    )


def ended(observed: BlueprintInstanceObserved, outcome: str) -> BlueprintInstanceObserved:
    """The same use when its Mission says how the run ended."""
    mission = observed.mission or {}
    annotations = {**mission["metadata"]["annotations"], labels.OUTCOME: outcome}
    return replace(observed, mission=stored(mission, annotations=annotations))


def moved(observed: BlueprintInstanceObserved) -> BlueprintInstanceObserved:
    """The same use when its spec names a second revision, whose template differs."""
    head = blueprints.blueprint(formation=CHANGED_TEAM)
    rendered = render_blueprint(
        head["spec"],
        {"topic": "pods"},
        blueprint="team",
        revision=2,
        instance="use",
        namespace="demo",
    )
    revision = BlueprintRevision.from_dict(stored(blueprints.revision(2, of=head)))
    return replace(observed, choice=Choice(2), revision=revision, rendering=rendered)


CHANGED_TEAM = {
    "cells": [{"name": "worker", "spec": {"mode": "Task", "container": {"image": "worker:2"}}}]
}
NEW = chosen()
BLUEPRINT_INSTANCE_OBSERVED = begun(NEW)
FOREIGN = stored(BLUEPRINT_INSTANCE_OBSERVED.formation or {}, ownerReferences=[], labels={})
INVALID = Violations(Reason.PARAMETERS_INVALID, ("topic: is required",))
FAULTY = Violations(Reason.RENDER_FAILED, ("cells: is required",))
ABSENT = Choice(
    problem=conditions.false(ConditionType.BLUEPRINT_RESOLVED, Reason.BLUEPRINT_NOT_FOUND, "none"),
    requeue_after=timedelta(seconds=10),
)
RECORDED = begun(NEW, annotations={labels.OUTCOME: "Succeeded"})
EXPIRING = ended(
    begun(NEW, annotations={labels.OUTCOME: "Succeeded"}, ttlSecondsAfterFinished=3600), "Succeeded"
)
FINISHED = {
    **(EXPIRING.mission or {}),
    "status": {"finishedAt": (NOW - timedelta(hours=2)).isoformat()},
}
FINISHED_NOW = {**FINISHED, "status": {"finishedAt": NOW.isoformat()}}
SESSION = chosen(mission=None)
RERUN = {labels.RERUN: "again"}

STEPS = ("BlueprintResolved", "ParametersValid", "Rendered", "Applied", "CellsReady")
RUNNING = {
    "BlueprintResolved": "True Resolved",
    "ParametersValid": "True ParametersValid",
    "Rendered": "True Rendered",
    "Applied": "True Applied",
    "CellsReady": "True CellsReady",
    "MissionFinished": "False Running",
    "Ready": "False Running",
}
NOT_REPORTED = {"CellsReady": "Unknown Reconciling"}
STARTING = {**RUNNING, **NOT_REPORTED}
HELD = "False UpdateWaiting"
SUCCEEDED = {**RUNNING, "MissionFinished": "True Finished", "Ready": "True Ready"}
SESSION_READY = {**RUNNING, "MissionFinished": "True NoMission", "Ready": "True Ready"}
UNREADY = {**SUCCEEDED, **NOT_REPORTED, "Ready": "Unknown Reconciling"}
FAILED = {**SUCCEEDED, "Ready": "False TaskFailed"}
STAMP = "PatchMetadata BlueprintInstance/use"
BEGIN_RUN = f"{STAMP} +kais.io/blueprint +kais.io/revision +kais.io/run-id"
BEGIN_FURTHER_RUN = f"{STAMP} -kais.io/outcome +kais.io/rerun-taken +kais.io/run-id"
MARK_OUTCOME = f"{STAMP} +kais.io/outcome"


def stopped_at(step: str, status: str, mission: str = "Unknown Reconciling") -> dict[str, str]:
    """The conditions of a use that does not get beyond a step: those after it wait."""
    passed = {name: RUNNING[name] for name in STEPS[: STEPS.index(step)]}
    waiting = dict.fromkeys(STEPS[STEPS.index(step) + 1 :], "Unknown Reconciling")
    return {**passed, step: status, **waiting, "MissionFinished": mission, "Ready": status}


CASES: dict[str, tuple[BlueprintInstanceObserved, PlanSummary]] = {
    "a new use stamps its run before it creates its children": (
        NEW,
        PlanSummary(
            (
                f"{BEGIN_RUN} +kais.io/run-object +kais.io/traceparent",
                "Create Formation/use",
                "Create Mission/use",
                "EmitEvent Normal RunBegun",
            ),
            STARTING,
        ),
    ),
    "a use whose mission runs waits for it": (
        BLUEPRINT_INSTANCE_OBSERVED,
        PlanSummary((), RUNNING),
    ),
    "a use whose mission has ended waits for cells that are not ready": (
        ended(begun(NEW, annotations={labels.OUTCOME: "Succeeded"}, is_ready=False), "Succeeded"),
        PlanSummary((), UNREADY),
    ),
    "a use without a Blueprint waits for one": (
        BlueprintInstanceObserved(use(), ABSENT),
        PlanSummary(
            ("EmitEvent Warning BlueprintNotFound",),
            stopped_at("BlueprintResolved", "False BlueprintNotFound"),
            10,
        ),
    ),
    "a revision that is being made is waited for": (
        BlueprintInstanceObserved(use(), Choice(1)),
        PlanSummary((), stopped_at("BlueprintResolved", "Unknown Reconciling")),
    ),
    "parameters that break their rules create nothing": (
        replace(NEW, rendering=INVALID),
        PlanSummary(
            ("EmitEvent Warning ParametersInvalid",),
            stopped_at("ParametersValid", "False ParametersInvalid"),
        ),
    ),
    "a template that renders nothing valid creates nothing": (
        replace(NEW, rendering=FAULTY),
        PlanSummary(
            ("EmitEvent Warning RenderFailed",), stopped_at("Rendered", "False RenderFailed")
        ),
    ),
    "a Formation of somebody else stops the whole use": (
        replace(NEW, formation=FOREIGN),
        PlanSummary(
            ("EmitEvent Warning NameTaken",),
            stopped_at("Applied", "False NameTaken", "False Running"),
            30,
        ),
    ),
    "a use that is suspended before its run begins nothing": (
        replace(NEW, instance=use(suspend=True)),
        PlanSummary((), stopped_at("Applied", "False Suspended", "False Running")),
    ),
    "a use that must not be reconciled writes nothing": (
        replace(NEW, instance=use(SUSPENDED)),
        PlanSummary((), stopped_at("Applied", "False Suspended", "False Running")),
    ),
    "a deleted Formation is created again": (
        replace(BLUEPRINT_INSTANCE_OBSERVED, formation=None),
        PlanSummary(("Create Formation/use",), STARTING),
    ),
    "a deleted Mission is created again for the same run": (
        replace(BLUEPRINT_INSTANCE_OBSERVED, mission=None),
        PlanSummary(("Create Mission/use",), RUNNING),
    ),
    "the end of the mission is stamped on the use": (
        ended(BLUEPRINT_INSTANCE_OBSERVED, "Succeeded"),
        PlanSummary((MARK_OUTCOME, "EmitEvent Normal RunEnded"), SUCCEEDED),
    ),
    "a use whose mission failed is not ready": (
        ended(BLUEPRINT_INSTANCE_OBSERVED, "Failed"),
        PlanSummary((MARK_OUTCOME, "EmitEvent Warning RunEnded"), FAILED),
    ),
    "a run that ended is stamped although the parameters are invalid now": (
        replace(ended(BLUEPRINT_INSTANCE_OBSERVED, "Succeeded"), rendering=INVALID),
        PlanSummary(
            (MARK_OUTCOME, "EmitEvent Normal RunEnded"),
            stopped_at("ParametersValid", "False ParametersInvalid", "True Finished"),
        ),
    ),
    "a use that has ended stays ready": (ended(RECORDED, "Succeeded"), PlanSummary((), SUCCEEDED)),
    "a further run waits until the mission has ended": (
        begun(NEW, annotations=RERUN),
        PlanSummary((), RUNNING),
    ),
    "a further run is stamped when the run before has ended": (
        ended(begun(NEW, annotations={**RERUN, labels.OUTCOME: "Succeeded"}), "Succeeded"),
        PlanSummary(
            (
                f"{BEGIN_FURTHER_RUN} +kais.io/traceparent",
                "EmitEvent Normal RunBegun",
            ),
            RUNNING,
        ),
    ),
    "another revision is held while the mission runs": (
        moved(BLUEPRINT_INSTANCE_OBSERVED),
        PlanSummary((), {**RUNNING, "Applied": HELD, "Ready": HELD}),
    ),
    "the mission's end is stamped before the held revision is applied": (
        moved(ended(BLUEPRINT_INSTANCE_OBSERVED, "Succeeded")),
        PlanSummary(
            (
                f"{STAMP} +kais.io/outcome +kais.io/revision",
                "Apply Formation/use",
                "EmitEvent Normal RunEnded",
            ),
            SUCCEEDED,
        ),
    ),
    "a held revision is applied when the mission has ended": (
        moved(ended(RECORDED, "Succeeded")),
        PlanSummary((f"{STAMP} +kais.io/revision", "Apply Formation/use"), SUCCEEDED),
    ),
    "a use without a mission opens a session": (
        SESSION,
        PlanSummary(
            (
                f"{BEGIN_RUN} +kais.io/run-kind +kais.io/run-object +kais.io/traceparent",
                "Create Formation/use",
                "PutRun open",
                "RefreshStatistics demo team",
                "EmitEvent Normal RunBegun",
            ),
            {**UNREADY, "MissionFinished": "Unknown Reconciling"},
        ),
    ),
    "a session that the store knows is not opened again": (
        replace(begun(SESSION), is_run_registered=True),
        PlanSummary(("EmitEvent Normal Ready",), SESSION_READY),
    ),
    "a finished use deletes itself when its time is over": (
        replace(EXPIRING, mission=FINISHED),
        PlanSummary(("Delete BlueprintInstance/use",)),
    ),
    "a finished use is looked at again when its time will be over": (
        replace(EXPIRING, mission=FINISHED_NOW),
        PlanSummary((), SUCCEEDED, 3600),
    ),
}


@pytest.mark.parametrize(("observed", "expected"), CASES.values(), ids=CASES)
def test_a_blueprint_instance(observed: BlueprintInstanceObserved, expected: PlanSummary) -> None:
    assert summarize(blueprint_instance.decide_blueprint_instance(observed, NOW)) == expected
