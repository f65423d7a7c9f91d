"""One Blueprint and its revisions in a world in memory: settle, edit, read what they say."""

from __future__ import annotations

from typing import Any

from kais_operator.controllers.blueprint import observe as blueprint
from kais_operator.controllers.blueprint_revision import observe as blueprint_revision
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes.renderer import InProcessRenderer
from tests.fakes.world import FakeWorld, fake_world

REF = ObjectRef("Blueprint", "demo", "team")


def world(*bodies: Body) -> FakeWorld:
    return fake_world(*bodies, renderer=InProcessRenderer())


async def settle(fake: FakeWorld) -> None:
    """Settle the Blueprint and every revision, as the queue would."""
    await fake.settle(blueprint.CONTROLLER, REF)
    for ref in fake.cluster.refs("BlueprintRevision"):
        await fake.settle(blueprint_revision.CONTROLLER, ref)


async def edit(fake: FakeWorld, **spec: Any) -> None:
    fake.cluster.edit(REF, {"spec": spec})
    await settle(fake)


def status(fake: FakeWorld) -> Body:
    return dict(fake.cluster.read(REF)["status"])


def condition(fake: FakeWorld, type_: str, ref: ObjectRef = REF) -> Body:
    conditions = fake.cluster.read(ref)["status"]["conditions"]
    return next(c for c in conditions if c["type"] == type_)


def numbers(fake: FakeWorld) -> list[int]:
    return [
        fake.cluster.read(r)["spec"]["revision"] for r in fake.cluster.refs("BlueprintRevision")
    ]
