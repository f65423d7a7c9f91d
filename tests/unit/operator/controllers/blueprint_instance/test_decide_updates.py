"""The revision that an instance with `updatePolicy: Automatic` moves to, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from kais import labels
from kais.resources.blueprint_instance import BlueprintInstance
from kais.resources.blueprint_revision import BlueprintRevision
from kais_operator.controllers.blueprint_instance.decide import revision_selection
from kais_operator.controllers.blueprint_instance.decide.revision_selection import Newer
from tests.fakes import blueprints
from tests.fakes.decisions import stored

ALLOWED = {labels.ALLOW_BREAKING_CHANGES: "true"}
TOPIC = {"name": "topic", "type": "string", "example": "pods"}
NEEDED = {"name": "owner", "type": "string", "example": "ada"}
OPTIONAL = {**NEEDED, "default": "ada"}
STOPS = (
    "; updatePolicy Automatic stops here, because revision 3 may break it: {reason}; annotate it "
    "kais.io/allow-breaking-changes=true, or name the revision in spec.blueprintRef.revision"
)
GONE = "its revision no longer exists, so the two cannot be compared"


def use(annotations: dict[str, str] | None = None, **spec: Any) -> BlueprintInstance:
    """An instance whose run has started on revision 1."""
    metadata = {
        "annotations": {labels.RUN_ID: "run", **(annotations or {})},
        "labels": {labels.BLUEPRINT: "team", labels.REVISION: "1"},
    }
    body = blueprints.instance(**{"updatePolicy": "Automatic", **spec})
    return BlueprintInstance.from_dict(stored(body, **metadata))


def revision(number: int, *parameters: dict[str, Any]) -> BlueprintRevision:
    head = blueprints.blueprint(parameters=[TOPIC, *parameters], formation=FORMATION)
    return BlueprintRevision.from_dict(stored(blueprints.revision(number, of=head)))


FORMATION = {"cells": [{"name": "worker", "spec": {"mode": "Task", "container": {"image": "w"}}}]}
FIRST, SECOND, THIRD = revision(1), revision(2, OPTIONAL), revision(3, NEEDED)
COMPATIBLE = Newer(2, FIRST, SECOND)
BREAKING = Newer(3, FIRST, THIRD)
BREAKS = "parameter 'owner' was added and is required"

CASES: dict[str, tuple[BlueprintInstance, Newer, bool, int, str]] = {
    "it stays while its revision is the served one": (use(), Newer(1, FIRST, FIRST), False, 1, ""),
    "it stays when the Blueprint is gone": (use(), Newer(None, FIRST), False, 1, ""),
    "it stays until the served revision exists": (use(), Newer(2, FIRST), False, 1, ""),
    "it moves to a compatible revision": (use(), COMPATIBLE, False, 2, ""),
    "it waits for its mission": (
        use(),
        COMPATIBLE,
        True,
        1,
        "; moves to revision 2 when the mission has ended",
    ),
    "it stops at a revision that may break it": (
        use(),
        BREAKING,
        False,
        1,
        STOPS.format(reason=BREAKS),
    ),
    "it stops after the last compatible revision before one that may break it": (
        use(),
        Newer(3, FIRST, THIRD, between=(SECOND,)),
        False,
        2,
        STOPS.format(reason=BREAKS),
    ),
    "it passes over revisions in between that may break it too": (
        use(),
        Newer(3, FIRST, THIRD, between=(revision(2, NEEDED),)),
        False,
        1,
        STOPS.format(reason=BREAKS),
    ),
    "it moves to a breaking revision that its owner allows": (use(ALLOWED), BREAKING, False, 3, ""),
    "it stops when its revision was deleted": (
        use(),
        Newer(3, None, THIRD),
        False,
        1,
        STOPS.format(reason=GONE),
    ),
}


@pytest.mark.parametrize(
    ("instance", "newer", "is_running", "number", "note"), CASES.values(), ids=CASES
)
def test_an_automatic_update(
    instance: BlueprintInstance, newer: Newer, is_running: bool, number: int, note: str
) -> None:
    choice = revision_selection.choose_newer(instance, newer, is_running=is_running)
    assert (choice.number, choice.note) == (number, note)


FOLLOWING: dict[str, tuple[BlueprintInstance, bool]] = {
    "an automatic instance whose run has started follows": (use(), True),
    "another policy does not": (use(updatePolicy="Manual"), False),
    "an instance that names its revision does not": (
        use(blueprintRef={"name": "team", "revision": 1}),
        False,
    ),
}


@pytest.mark.parametrize(("instance", "expected"), FOLLOWING.values(), ids=FOLLOWING)
def test_which_instances_follow(instance: BlueprintInstance, expected: bool) -> None:
    assert revision_selection.follows(instance) is expected
