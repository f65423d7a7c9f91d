"""When the Service cells of an instance are scaled down and up, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from kais import labels
from kais.outcomes import Outcome
from kais.resources.blueprint_instance import BlueprintInstance
from kais_operator.controllers.blueprint_instance.decide import child_manifests, scale_down
from kais_operator.controllers.blueprint_instance.decide.child_manifests import Run
from kais_operator.controllers.blueprint_instance.decide.instance_observed import (
    BlueprintInstanceObserved,
    Choice,
)
from kais_operator.planning.plan import Body, Plan
from tests.fakes import blueprints, services, teams
from tests.fakes.decisions import stored, summarize

RUNNING, ENDED = Run("run", None), Run("run", Outcome.SUCCEEDED)
DOWN = {labels.SCALED_DOWN: labels.SCALED_DOWN_YES}
SCALE_DOWN = ("PatchMetadata Formation/use +kais.io/scaled-down",)
SCALE_UP = ("PatchMetadata Formation/use -kais.io/scaled-down",)
SERVICE = [{"name": "api", "spec": services.service()}]
TASK = [{"name": "lead", "spec": teams.task()}]


def use(after_mission: str | None = "ScaleDown") -> BlueprintInstance:
    spec = {} if after_mission is None else {"afterMission": after_mission}
    return BlueprintInstance.from_dict(stored(blueprints.instance(**spec)))


def team(cells: list[Body] = SERVICE, *, annotations: Body | None = None, **metadata: Any) -> Body:
    owner = child_manifests.parent_of(use()).owner_reference()
    body = teams.team("use", cells=cells)
    whole: Body = {"annotations": annotations or {}, "ownerReferences": [owner], **metadata}
    return stored(body, **whole)


CASES: dict[str, tuple[BlueprintInstance, Body | None, Run | None, tuple[str, ...]]] = {
    "service cells run while the mission runs": (use(), team(), RUNNING, ()),
    "service cells are scaled down when the mission has ended": (use(), team(), ENDED, SCALE_DOWN),
    "cells that are scaled down stay so": (use(), team(annotations=DOWN), ENDED, ()),
    "cells are scaled up before another run": (
        use(),
        team(annotations=DOWN),
        RUNNING,
        SCALE_UP,
    ),
    "cells are scaled up when the spec keeps them now": (
        use("Keep"),
        team(annotations=DOWN),
        ENDED,
        SCALE_UP,
    ),
    "afterMission Keep leaves the cells running": (use("Keep"), team(), ENDED, ()),
    "a team of task cells has nothing to scale down": (use(), team(TASK), ENDED, ()),
    "an instance without a run scales nothing": (use(), team(), None, ()),
    "a formation that does not exist is not patched": (use(), None, ENDED, ()),
    "a formation of another owner is not patched": (
        use(),
        team(ownerReferences=[{"uid": "other", "controller": True}]),
        ENDED,
        (),
    ),
    "a formation that is not valid is not scaled down": (
        use(),
        team([{"name": "api", "spec": {"mode": "Nonsense"}}]),
        ENDED,
        (),
    ),
}


@pytest.mark.parametrize(("instance", "formation", "run", "expected"), CASES.values(), ids=CASES)
def test_scaling_down_after_the_mission(
    instance: BlueprintInstance, formation: Body | None, run: Run | None, expected: tuple[str, ...]
) -> None:
    observed = BlueprintInstanceObserved(instance, Choice(1), formation=formation)
    assert summarize(Plan(scale_down.decide(observed, run))).actions == expected
