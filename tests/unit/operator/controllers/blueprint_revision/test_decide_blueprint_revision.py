"""What is decided about a BlueprintRevision, case by case."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kais import labels
from kais.conditions import Reason
from kais.resources.blueprint_revision import BlueprintRevision
from kais_operator.controllers.blueprint.decide import revision_history
from kais_operator.controllers.blueprint.decide.revision_history import Verdict
from kais_operator.controllers.blueprint_revision.decide import blueprint_revision
from kais_operator.controllers.blueprint_revision.decide.blueprint_revision import (
    BlueprintRevisionObserved,
)
from kais_operator.planning.plan import Body
from tests.fakes import blueprints
from tests.fakes.decisions import NOW, PlanSummary, stored, summarize

GOOD = Verdict(True, Reason.COMPILED, "it compiles")
BAD = Verdict(False, Reason.TEMPLATE_ERROR, "line 1: unknown filter")
SLOW = Verdict(False, Reason.TEMPLATE_ERROR, "too slow", retry_after=timedelta(seconds=7))
SUSPENDED = {labels.RECONCILE: labels.RECONCILE_SUSPENDED}
LABELS = revision_history.labels_of(BlueprintRevision.from_dict(stored(blueprints.revision())))


def observe(
    verdict: Verdict = GOOD, *, spec: Body | None = None, **metadata: Any
) -> BlueprintRevisionObserved:
    body = stored(blueprints.revision(), **{"labels": LABELS, **metadata})
    body["spec"] |= spec or {}
    return BlueprintRevisionObserved(BlueprintRevision.from_dict(body), verdict)


def without(*names: str) -> dict[str, str]:
    return {name: value for name, value in LABELS.items() if name not in names}


RELABELLED = "PatchMetadata BlueprintRevision/team-r00001"
EVERY_LABEL = (
    "+app.kubernetes.io/managed-by +kais.io/blueprint +kais.io/revision +kais.io/spec-hash"
)
USABLE = {"Compiled": "True Compiled", "Compatible": "True FirstRevision", "Ready": "True Ready"}
BROKEN = {**USABLE, "Compiled": "False TemplateError", "Ready": "False TemplateError"}

CASES: dict[str, tuple[BlueprintRevisionObserved, PlanSummary]] = {
    "a first revision that compiles can be used": (observe(), PlanSummary((), USABLE)),
    "a revision that does not compile cannot be used": (observe(BAD), PlanSummary((), BROKEN)),
    "a revision that took too long is compiled again": (observe(SLOW), PlanSummary((), BROKEN, 7)),
    "a revision that changes nothing for its callers is compatible": (
        observe(spec={"changes": "a new default"}),
        PlanSummary((), {**USABLE, "Compatible": "True Compatible"}),
    ),
    "a revision that breaks its callers can be used": (
        observe(spec={"changes": "topic is gone", "breaking": ["topic is gone"]}),
        PlanSummary((), {**USABLE, "Compatible": "False BreakingChange"}),
    ),
    "a lost label is written again": (
        observe(labels=without(labels.REVISION)),
        PlanSummary((f"{RELABELLED} +kais.io/revision",), USABLE),
    ),
    "a changed label is written again": (
        observe(labels={**LABELS, labels.BLUEPRINT: "other"}),
        PlanSummary((f"{RELABELLED} +kais.io/blueprint",), USABLE),
    ),
    "all lost labels are written again": (
        observe(labels={}),
        PlanSummary(
            (f"{RELABELLED} {EVERY_LABEL}",),
            USABLE,
        ),
    ),
    "a label of somebody else stays": (
        observe(labels={**LABELS, "team": "ours"}),
        PlanSummary((), USABLE),
    ),
    "a suspended revision keeps the labels that it has": (
        observe(labels={}, annotations=SUSPENDED),
        PlanSummary((), USABLE),
    ),
}


@pytest.mark.parametrize(("observed", "expected"), CASES.values(), ids=CASES)
def test_a_blueprint_revision(observed: BlueprintRevisionObserved, expected: PlanSummary) -> None:
    assert summarize(blueprint_revision.decide_blueprint_revision(observed, NOW)) == expected
