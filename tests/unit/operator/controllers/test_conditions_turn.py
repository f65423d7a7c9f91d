"""Each condition turns True, False and True again, with the time of its turn, by a fault."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kais_operator import errors
from kais_operator.controllers import registry
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes import teams, uses
from tests.fakes.renderer import InProcessRenderer
from tests.fakes.world import FakeWorld

Fault = Callable[[FakeWorld], object]
REVISION = ObjectRef("BlueprintRevision", "demo", "team-r00001")
CELL = teams.CELL


async def used() -> FakeWorld:
    fake = await uses.world()
    await uses.settle(fake)
    cells_ready(fake, "True")
    await uses.settle(fake)
    await fake.settle(registry.CONTROLLERS["BlueprintRevision"], REVISION)
    return fake


def cells_ready(fake: FakeWorld, status: str) -> None:
    """Tell of the cells as the Formation's controller does."""
    generation = fake.cluster.read(uses.FORMATION)["metadata"]["generation"]
    reported_condition = {
        "type": "CellsReady",
        "status": status,
        "reason": "WaitingForCells",
        "message": "m",
    }
    conditions = [{**reported_condition, "observedGeneration": generation}]
    fake.cluster.set_status(uses.FORMATION, {"conditions": conditions})


def slow(fake: FakeWorld) -> None:
    """Have the next template that is rendered or compiled pass the time limit."""
    renderer = fake.world.renderer
    assert isinstance(renderer, InProcessRenderer)
    renderer.fails = [errors.RenderingFailed("rendering took more than 2 s", cap="time")]


def taken(ref: ObjectRef) -> tuple[Fault, Fault]:
    """Have a stranger take a child's name, and leave again."""
    spec = {"cells": []} if ref.kind == "Formation" else teams.task()
    stranger = teams.thing(ref.kind, ref.name, spec=spec)

    def take(fake: FakeWorld) -> None:
        fake.cluster.vanish(ref)
        fake.cluster.put(stranger)

    return take, lambda fake: fake.cluster.vanish(ref)


def edited(ref: ObjectRef, wrong: Body, right: Body) -> tuple[Fault, Fault]:
    return lambda f: f.cluster.edit(ref, wrong), lambda f: f.cluster.edit(ref, right)


def gone(ref: ObjectRef) -> tuple[Fault, Fault]:
    """Lose an object, and have it back as it was."""
    stored_items: list[Body] = []

    def lose(fake: FakeWorld) -> None:
        stored_items.append(fake.cluster.read(ref))
        fake.cluster.vanish(ref)

    return lose, lambda fake: fake.cluster.put(stored_items[0])


def nothing(_: FakeWorld) -> None:
    """Mend nothing: the next look does better by itself."""


COUNT = {"spec": {"parameters": {"topic": "pods", "count": 3}}}
WRONG = {"spec": {"parameters": {"topic": "pods", "count": 99}}}
TURNS: list[tuple[Callable[[], Awaitable[FakeWorld]], ObjectRef, str, str, tuple[Fault, Fault]]] = [
    (used, uses.USE, "BlueprintResolved", "RevisionNotFound", gone(REVISION)),
    (used, uses.USE, "ParametersValid", "ParametersInvalid", edited(uses.USE, WRONG, COUNT)),
    (used, uses.USE, "Rendered", "RenderFailed", (slow, nothing)),
    (used, uses.USE, "Applied", "NameTaken", taken(uses.FORMATION)),
    (
        used,
        uses.USE,
        "CellsReady",
        "WaitingForCells",
        (lambda fake: cells_ready(fake, "False"), lambda fake: cells_ready(fake, "True")),
    ),
    (used, REVISION, "Compiled", "TemplateError", (slow, nothing)),
    (used, REVISION, "Ready", "TemplateError", (slow, nothing)),
    (teams.ready_world, teams.FORMATION, "Applied", "NameTaken", taken(CELL)),
]


def condition(fake: FakeWorld, ref: ObjectRef, type_: str) -> dict[str, Any]:
    conditions = fake.cluster.read(ref)["status"]["conditions"]
    return dict(next(c for c in conditions if c["type"] == type_))


@pytest.mark.parametrize(
    ("make", "ref", "type_", "reason", "fault"),
    TURNS,
    ids=[f"{ref.kind} {type_}" for _, ref, type_, _, _ in TURNS],
)
async def test_a_condition_turns_false_with_a_fault_and_true_when_it_is_mended(
    make: Callable[[], Awaitable[FakeWorld]],
    ref: ObjectRef,
    type_: str,
    reason: str,
    fault: tuple[Fault, Fault],
) -> None:
    fake = await make()
    reconciler, (breaking, mending) = registry.CONTROLLERS[ref.kind], fault
    first = condition(fake, ref, type_)
    assert first["status"] == "True"
    fake.clock.advance(100)
    breaking(fake)
    await fake.step(reconciler, ref)
    broken = condition(fake, ref, type_)
    assert (broken["status"], broken["reason"]) == ("False", reason)
    assert broken["lastTransitionTime"] > first["lastTransitionTime"]
    fake.clock.advance(100)
    mending(fake)
    await fake.settle(reconciler, ref)
    if type_ == "Applied" and ref.kind == "BlueprintInstance":
        cells_ready(fake, "True")
    mended = condition(fake, ref, type_)
    assert (mended["status"], mended["reason"]) == ("True", first["reason"])
    assert mended["lastTransitionTime"] > broken["lastTransitionTime"]
