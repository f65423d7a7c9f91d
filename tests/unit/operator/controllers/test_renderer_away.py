"""A renderer that does not answer is no template's fault: objects say so, and nothing is judged."""

from __future__ import annotations

from typing import Any

import pytest

from kais_operator import errors
from kais_operator.controllers import registry
from kais_operator.planning.plan import Body, ObjectRef
from kais_operator.rendering.renderer import WorkerRenderer
from kais_rendering.errors import RendererUnavailable
from tests.fakes import blueprints
from tests.fakes.renderer import InProcessRenderer
from tests.fakes.world import FakeWorld, fake_world

MESSAGE = "the renderer does not answer: No such file or directory"
REFS = [
    ObjectRef("Blueprint", "demo", "team"),
    ObjectRef("BlueprintRevision", "demo", blueprints.revision()["metadata"]["name"]),
    ObjectRef("BlueprintInstance", "demo", blueprints.instance()["metadata"]["name"]),
]


class Leaving(InProcessRenderer):
    """A renderer that is away while `is_away`."""

    is_away = False

    def _maybe_fail(self) -> None:
        if self.is_away:
            raise errors.RendererUnavailable(MESSAGE)
        super()._maybe_fail()


def ready(fake: FakeWorld, ref: ObjectRef) -> tuple[str, str, str]:
    conditions = fake.cluster.read(ref)["status"]["conditions"]
    (condition,) = [c for c in conditions if c["type"] == "Ready"]
    return condition["status"], condition["reason"], condition["message"]


@pytest.mark.parametrize("ref", REFS, ids=lambda ref: ref.kind)
async def test_an_object_says_that_the_renderer_is_away_and_goes_on_when_it_is_back(
    ref: ObjectRef,
) -> None:
    renderer = Leaving()
    bodies = (blueprints.blueprint(), blueprints.revision(), blueprints.instance())
    fake = fake_world(*bodies, renderer=renderer)
    await fake.settle(registry.CONTROLLERS["Blueprint"], REFS[0])
    renderer.is_away = True
    plan = await fake.settle(registry.CONTROLLERS[ref.kind], ref)
    message = f"{MESSAGE}; its template is compiled and rendered as soon as it does"
    assert ready(fake, ref) == ("False", "RendererUnavailable", message)
    assert plan is not None
    assert plan.requeue_after is not None, "looked at again"
    renderer.is_away = False
    await fake.settle(registry.CONTROLLERS[ref.kind], ref)
    assert ready(fake, ref)[1] != "RendererUnavailable"


async def test_a_revision_that_served_serves_on_while_the_renderer_is_away() -> None:
    renderer = Leaving()
    fake = fake_world(blueprints.blueprint(), renderer=renderer)
    await fake.settle(registry.CONTROLLERS["Blueprint"], REFS[0])
    initial_state = fake.cluster.read(REFS[0])
    renderer.is_away = True
    await fake.step(registry.CONTROLLERS["Blueprint"], REFS[0])
    final_state = fake.cluster.read(REFS[0])
    assert final_state["status"]["servedRevision"] == initial_state["status"]["servedRevision"] == 1
    assert final_state["metadata"]["annotations"] == initial_state["metadata"]["annotations"]
    assert compiled(final_state) == compiled(initial_state), "it is not said to be wrong"


def compiled(body: Body) -> str:
    (condition,) = [c for c in body["status"]["conditions"] if c["type"] == "Compiled"]
    return str(condition["status"])


class Pool:
    """A pool whose server is away until it is told to answer."""

    def __init__(self) -> None:
        self.is_away = True
        self.requests = 0

    async def start(self) -> None:
        """Nothing has to start."""

    async def close(self) -> None:
        """Nothing has to end."""

    async def ask(self, request: bytes, *, namespace: str) -> dict[str, Any]:
        del request, namespace
        self.requests += 1
        if self.is_away:
            raise RendererUnavailable(MESSAGE)
        return {"found": True}


async def test_a_request_is_asked_again_at_once_when_the_renderer_is_back() -> None:
    pool, counted = Pool(), list[str]()
    renderer = WorkerRenderer(pool, count=lambda _, result, __: counted.append(result))
    for _ in range(2):
        with pytest.raises(errors.RendererUnavailable, match=MESSAGE):
            await renderer.find("a", "a", ignore_case=False, namespace="n")
    pool.is_away = False
    assert await renderer.find("a", "a", ignore_case=False, namespace="n")
    assert counted == ["unavailable", "unavailable", "ok"]
    assert pool.requests == 3, "there is no pause as after a limit"
