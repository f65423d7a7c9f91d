"""One use of a Blueprint in a world in memory: settle it, end its mission, read what it says."""

from __future__ import annotations

from kais_operator.controllers.blueprint import observe as blueprint
from kais_operator.controllers.blueprint_instance import observe as blueprint_instance
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes import blueprints
from tests.fakes.renderer import InProcessRenderer
from tests.fakes.world import FakeWorld, fake_world

REF = ObjectRef("BlueprintInstance", "demo", "use")
TEAM = ObjectRef("Blueprint", "demo", "team")
FORMATION = ObjectRef("Formation", "demo", "use")
MISSION = ObjectRef("Mission", "demo", "use")


async def world(*bodies: Body, head: Body | None = None) -> FakeWorld:
    """A world with a settled Blueprint, and `bodies` (one valid instance unless given)."""
    fake = fake_world(
        head or blueprints.blueprint(),
        *(bodies or (blueprints.instance(),)),
        renderer=InProcessRenderer(),
    )
    await fake.settle(blueprint.CONTROLLER, TEAM)
    return fake


async def settle(fake: FakeWorld) -> None:
    await fake.settle(blueprint_instance.CONTROLLER, REF)


def status(fake: FakeWorld) -> Body:
    return dict(fake.cluster.read(REF)["status"])


def condition(fake: FakeWorld, type_: str) -> tuple[str, str, str]:
    conditions = status(fake)["conditions"]
    result = next(c for c in conditions if c["type"] == type_)
    return result["status"], result["reason"], result["message"]


def metadata(fake: FakeWorld, ref: ObjectRef = REF) -> Body:
    return dict(fake.cluster.read(ref)["metadata"])


def end(fake: FakeWorld, outcome: str, message: str = "all is well") -> None:
    """End the mission as its controller does."""
    fake.cluster.edit(MISSION, {"metadata": {"annotations": {"kais.io/outcome": outcome}}})
    finished = fake.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    fields = {"message": message, "finishedAt": finished, "outcome": outcome}
    fake.cluster.set_status(MISSION, fields)


def told_of(fake: FakeWorld, kind: str) -> list[tuple[str, str]]:
    """Give reason and message of the Events about objects of a kind."""
    return [
        (event["reason"], event["message"])
        for event in fake.cluster.events
        if event["about"].kind == kind
    ]


def report_cells_ready(fake: FakeWorld) -> None:
    """Report in the status of the Formation that its cells are ready."""
    generation = metadata(fake, FORMATION)["generation"]
    reported_condition = {
        "type": "CellsReady",
        "status": "True",
        "reason": "CellsReady",
        "message": "1 of 1",
    }
    fake.cluster.set_status(
        FORMATION, {"conditions": [{**reported_condition, "observedGeneration": generation}]}
    )
