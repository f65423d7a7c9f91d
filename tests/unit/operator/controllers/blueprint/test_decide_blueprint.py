"""What is decided about a Blueprint, case by case."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kais import labels
from kais.conditions import Reason
from kais.resources.blueprint import Blueprint
from kais.resources.blueprint_revision import BlueprintRevision
from kais.resources.field_types import rfc3339
from kais_operator.controllers.blueprint.decide import blueprint
from kais_operator.controllers.blueprint.decide.blueprint import BlueprintObserved
from kais_operator.controllers.blueprint.decide.revision_history import Verdict
from kais_operator.planning.plan import Body, PatchMetadata
from knowledge_client import models
from tests.fakes import blueprints
from tests.fakes.decisions import NOW, PlanSummary, stored, summarize

GOOD = Verdict(True, Reason.COMPILED, "it compiles")
BAD = Verdict(False, Reason.TEMPLATE_ERROR, "line 1: unknown filter")
SLOW = Verdict(False, Reason.TEMPLATE_ERROR, "too slow", retry_after=timedelta(seconds=7))
STATS = models.BlueprintStats(namespace="demo", name="team")
SUSPENDED = {labels.RECONCILE: labels.RECONCILE_SUSPENDED}
DUE = {labels.COLLECT_AFTER: rfc3339(NOW)}


def head(
    *, annotations: dict[str, str] | None = None, is_deleting: bool = False, **spec: Any
) -> Blueprint:
    metadata: Body = {"annotations": annotations or {}}
    if is_deleting:
        metadata["deletionTimestamp"] = NOW.isoformat()
    return Blueprint.from_dict(stored(blueprints.blueprint(**spec), **metadata))


def revision(
    number: int, *, objective: str = "explain {{ topic }}", **metadata: Any
) -> BlueprintRevision:
    of = blueprints.blueprint(mission={"objective": objective, "entrypoint": {"cell": "worker"}})
    return BlueprintRevision.from_dict(stored(blueprints.revision(number, of=of), **metadata))


def settled(*revisions: BlueprintRevision, served: int, **spec: Any) -> BlueprintObserved:
    """A Blueprint that the operator has annotated; its last revision is that of its spec."""
    present = revisions[-1].spec.revision
    observed = BlueprintObserved(head(**spec), revisions, present, {served: GOOD}, stats=STATS)
    (patch,) = [
        action
        for action in blueprint.decide_blueprint(observed, NOW).actions
        if isinstance(action, PatchMetadata)
    ]
    annotations = {key: value for key, value in patch.annotations.items() if value is not None}
    return replace(observed, blueprint=head(annotations=annotations, **spec))


OLD, OLDER = (
    revision(2, objective="describe {{ topic }}"),
    revision(1, objective="name {{ topic }}"),
)
BLUEPRINT_REVISION = revision(1)
NEW = BlueprintObserved(head(), number=1, verdicts={1: GOOD}, stats=STATS)
OBSERVED = settled(BLUEPRINT_REVISION, served=1)
EDITED = BlueprintObserved(head(), (OLDER,), 2, {2: GOOD}, stats=STATS)
ORPHANS = BlueprintObserved(None, (OLDER, OLD), in_use=frozenset())
CROWDED = settled(OLDER, OLD, revision(3), served=3, revisionHistoryLimit=1)

SERVED = {"Compiled": "True Compiled", "Ready": "True Served"}
BROKEN = {"Compiled": "False TemplateError", "Ready": "False NoGoodRevision"}
NUMBERED = "PatchMetadata Blueprint/team +kais.io/last-revision +kais.io/last-revision-hash"
NUMBERED_AND_SERVED = f"{NUMBERED} +kais.io/served-revision"

CASES: dict[str, tuple[BlueprintObserved, PlanSummary]] = {
    "a new Blueprint writes the number down before it makes the revision": (
        NEW,
        PlanSummary(
            (
                NUMBERED_AND_SERVED,
                "Create BlueprintRevision/team-r00001",
                "EmitEvent Normal RevisionMade",
                "EmitEvent Normal Compiled",
            ),
            SERVED,
        ),
    ),
    "a Blueprint whose revision serves gets no further one": (
        OBSERVED,
        PlanSummary(("EmitEvent Normal Compiled",), SERVED),
    ),
    "an edited Blueprint gets the next revision": (
        EDITED,
        PlanSummary(
            (
                NUMBERED_AND_SERVED,
                "Create BlueprintRevision/team-r00002",
                "EmitEvent Normal RevisionMade",
                "EmitEvent Normal Compiled",
            ),
            SERVED,
        ),
    ),
    "a revision that does not compile leaves the one before serving": (
        replace(EDITED, verdicts={2: BAD, 1: GOOD}),
        PlanSummary(
            (
                NUMBERED_AND_SERVED,
                "Create BlueprintRevision/team-r00002",
                "EmitEvent Normal RevisionMade",
                "EmitEvent Warning TemplateError",
            ),
            {"Compiled": "False TemplateError", "Ready": "True LastGoodServed"},
        ),
    ),
    "a Blueprint of which no revision compiles is not ready": (
        replace(NEW, verdicts={1: BAD}),
        PlanSummary(
            (
                NUMBERED,
                "Create BlueprintRevision/team-r00001",
                "EmitEvent Normal RevisionMade",
                "EmitEvent Warning TemplateError",
            ),
            BROKEN,
        ),
    ),
    "a template that took too long is compiled again": (
        replace(NEW, verdicts={1: SLOW}),
        PlanSummary(
            (
                NUMBERED,
                "Create BlueprintRevision/team-r00001",
                "EmitEvent Normal RevisionMade",
                "EmitEvent Warning TemplateError",
            ),
            BROKEN,
            7,
        ),
    ),
    "a taken name stops the revision": (
        replace(NEW, is_name_taken=True),
        PlanSummary(
            ("EmitEvent Warning NameTaken",),
            {"Compiled": "False NameTaken", "Ready": "False NoGoodRevision"},
            300,
        ),
    ),
    "a spec waits for its number while the ledger is away": (
        BlueprintObserved(
            head(), unnumbered="no answer", verdicts={0: GOOD}, store_problem="no answer"
        ),
        PlanSummary(
            ("EmitEvent Normal Compiled",),
            {"Compiled": "True Compiled", "Ready": "False StoreUnavailable"},
            5,
        ),
    ),
    "statistics are asked for again while the store is away": (
        replace(OBSERVED, stats=None, store_problem="no answer"),
        PlanSummary(("EmitEvent Normal Compiled",), SERVED, 30),
    ),
    "a revision beyond the limit is marked before it is deleted": (
        replace(CROWDED, in_use=frozenset({2})),
        PlanSummary(
            (
                "PatchMetadata BlueprintRevision/team-r00001 +kais.io/collect-after",
                "EmitEvent Normal Compiled",
            ),
            SERVED,
            120,
        ),
    ),
    "a revision whose mark is due is deleted": (
        replace(
            CROWDED,
            revisions=(
                revision(1, objective="name {{ topic }}", annotations=DUE),
                OLD,
                revision(3),
            ),
            in_use=frozenset({2}),
        ),
        PlanSummary(
            ("Delete BlueprintRevision/team-r00001", "EmitEvent Normal Compiled"), SERVED, 1
        ),
    ),
    "a revision beyond the limit that is in use stays": (
        replace(CROWDED, in_use=frozenset({1, 2})),
        PlanSummary(("EmitEvent Normal Compiled",), SERVED, 300),
    ),
    "a suspended Blueprint makes no revision": (
        replace(NEW, blueprint=head(annotations=SUSPENDED)),
        PlanSummary((), {"Compiled": "False Suspended", "Ready": "False NoGoodRevision"}),
    ),
    "a Blueprint that is being deleted is left alone": (
        replace(NEW, blueprint=head(is_deleting=True)),
        PlanSummary(),
    ),
    "revisions without a Blueprint are marked when nobody names them": (
        ORPHANS,
        PlanSummary(
            (
                "PatchMetadata BlueprintRevision/team-r00001 +kais.io/collect-after",
                "PatchMetadata BlueprintRevision/team-r00002 +kais.io/collect-after",
            ),
            requeue_s=120,
        ),
    ),
    "revisions without a Blueprint stay while somebody names them": (
        replace(ORPHANS, in_use=frozenset({1, 2})),
        PlanSummary(requeue_s=300),
    ),
}


@pytest.mark.parametrize(("observed", "expected"), CASES.values(), ids=CASES)
def test_a_blueprint(observed: BlueprintObserved, expected: PlanSummary) -> None:
    assert summarize(blueprint.decide_blueprint(observed, NOW)) == expected
