"""A use of the Blueprint `team` in a whole world in memory, and what happens to it there."""

from __future__ import annotations

from typing import Any

from kais import names
from kais_operator.controllers.blueprint import observe as blueprint
from kais_operator.controllers.blueprint_instance import observe as blueprint_instance
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes import blueprints
from tests.fakes.renderer import InProcessRenderer
from tests.fakes.world import FakeWorld, fake_world

USE = ObjectRef("BlueprintInstance", "demo", "use")
TEAM = ObjectRef("Blueprint", "demo", "team")
FORMATION = ObjectRef("Formation", "demo", "use")
MISSION = ObjectRef("Mission", "demo", "use")
SERVICE_TEAM: Body = {
    "cells": [
        {
            "name": "worker",
            "replicas": "{{ count }}",
            "spec": {
                "mode": "Service",
                "container": {"image": "worker:1", "ports": [{"containerPort": 80}]},
            },
        }
    ]
}


async def world(*bodies: Body, head: Body | None = None) -> FakeWorld:
    """Build a world with a settled Blueprint, and `bodies` (one valid instance unless given)."""
    fake = fake_world(
        head or blueprints.blueprint(),
        *(bodies or (blueprints.instance(),)),
        renderer=InProcessRenderer(),
    )
    await settle_head(fake)
    return fake


async def settle_head(fake: FakeWorld) -> None:
    await fake.settle(blueprint.CONTROLLER, TEAM)


async def settle(fake: FakeWorld) -> None:
    await fake.settle(blueprint_instance.CONTROLLER, USE)


async def edit_head(fake: FakeWorld, **spec: Any) -> None:
    """Edit the Blueprint, and have its next revision made."""
    fake.cluster.edit(TEAM, {"spec": spec})
    await settle_head(fake)


def status(fake: FakeWorld) -> Body:
    return dict(fake.cluster.read(USE)["status"])


def condition(fake: FakeWorld, type_: str) -> tuple[str, str, str]:
    matching_condition = next(c for c in status(fake)["conditions"] if c["type"] == type_)
    return matching_condition["status"], matching_condition["reason"], matching_condition["message"]


def metadata(fake: FakeWorld, ref: ObjectRef = USE) -> Body:
    return dict(fake.cluster.read(ref)["metadata"])


def annotations_of(fake: FakeWorld, ref: ObjectRef = USE) -> dict[str, str]:
    return dict(metadata(fake, ref).get("annotations") or {})


def annotate(fake: FakeWorld, ref: ObjectRef = USE, **values: str | None) -> None:
    """Write annotations of ours: `run_id` is `kais.io/run-id`."""
    fields = {f"kais.io/{name.replace('_', '-')}": value for name, value in values.items()}
    fake.cluster.edit(ref, {"metadata": {"annotations": fields}})


def end(fake: FakeWorld, outcome: str = "Succeeded", message: str = "all is well") -> None:
    """End the mission as its controller does."""
    annotate(fake, MISSION, outcome=outcome)
    finished = fake.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    fields = {"message": message, "finishedAt": finished, "outcome": outcome}
    fake.cluster.set_status(MISSION, fields)


def run_again(fake: FakeWorld) -> None:
    """Take up a further run as the mission's controller does."""
    nonce = annotations_of(fake, MISSION)["kais.io/rerun"]
    run_id = names.run_id(metadata(fake)["uid"], nonce)
    annotate(fake, MISSION, run_id=run_id, rerun_taken=nonce, outcome=None)
    fake.cluster.set_status(MISSION, {"message": "attempt 1 runs"})


def edit_parameters(fake: FakeWorld, **values: Any) -> None:
    fake.cluster.edit(USE, {"spec": {"parameters": values}})
