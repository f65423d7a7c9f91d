"""Blueprints and uses under any order of events: in the end every pass is a fixed point, a run
begins once for each wish, and nothing that is somebody else's is touched.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kais_operator import errors
from kais_operator.controllers.blueprint import observe as blueprint
from kais_operator.controllers.blueprint_instance import observe as blueprint_instance
from kais_operator.controllers.blueprint_revision import observe as blueprint_revision
from tests.fakes import blueprints, uses
from tests.fakes.renderer import InProcessRenderer
from tests.fakes.uses import FORMATION, MISSION, TEAM, USE
from tests.fakes.world import FakeWorld, fake_world

Event = Callable[[FakeWorld], object]


def _if(ref: Any, act: Event) -> Event:
    return lambda fake: act(fake) if ref in fake.cluster.refs() else None


def _edit(ref: Any, patch: dict[str, Any]) -> Event:
    return _if(ref, lambda fake: fake.cluster.edit(ref, patch))


def _marked(ref: Any, **values: str | None) -> Event:
    return _if(ref, lambda fake: uses.annotate(fake, ref, **values))


def _ends(outcome: str) -> Event:
    def event(fake: FakeWorld) -> None:
        if "kais.io/outcome" not in uses.annotations_of(fake, MISSION):
            uses.end(fake, outcome)

    return _if(MISSION, event)


def _takes_up(fake: FakeWorld) -> None:
    carried = uses.annotations_of(fake, MISSION)
    rerun = carried.get("kais.io/rerun")
    if rerun and rerun != carried.get("kais.io/rerun-taken") and USE in fake.cluster.refs():
        uses.run_again(fake)


def _recorded(fake: FakeWorld) -> None:
    fake.cluster.edit(MISSION, {"metadata": {"finalizers": None}})


def _away(away: bool) -> Event:
    def event(fake: FakeWorld) -> None:
        fake.knowledge.away = away

    return event


def _refused(verb: str) -> Event:
    return lambda fake: fake.cluster.fail(verb, errors.ClusterUnavailable("cut"))


def _restart(fake: FakeWorld) -> None:
    fake.sync_state.clear()
    for ref in (USE, TEAM):
        if ref in fake.cluster.refs():
            fake.cluster.edit(ref, {"status": None})


def _stranger(fake: FakeWorld) -> None:
    if FORMATION not in fake.cluster.refs():
        body = {"apiVersion": "kais.io/v1", "kind": "Formation", "spec": {"cells": []}}
        fake.cluster.put({**body, "metadata": {"name": "use", "namespace": "demo"}})


def _limits(fake: FakeWorld) -> None:
    renderer = fake.world.renderer
    assert isinstance(renderer, InProcessRenderer)
    renderer.fails = [errors.RenderingFailed("rendering took more than 2 s", cap="time")]


MISSION_OF = blueprints.blueprint()["spec"]["mission"]
EVENTS: dict[str, Event] = {
    "the mission succeeds": _ends("Succeeded"),
    "the mission is cancelled": _ends("Cancelled"),
    "the mission takes up a rerun": _if(MISSION, _takes_up),
    "the run is recorded": _if(MISSION, _recorded),
    "somebody asks for a rerun": _marked(USE, rerun="2"),
    "somebody asks for another": _marked(USE, rerun="3"),
    "the Blueprint is edited": _edit(
        TEAM, {"spec": {"mission": {"objective": "mend {{ topic }}"}}}
    ),
    "the Blueprint goes back": _edit(TEAM, {"spec": {"mission": MISSION_OF}}),
    "the Blueprint breaks": _edit(TEAM, {"spec": {"mission": {"objective": "{{ nobody }}"}}}),
    "the mission leaves the Blueprint": _edit(TEAM, {"spec": {"mission": None}}),
    "the cells become services": _edit(TEAM, {"spec": {"formation": uses.SERVICE_TEAM}}),
    "the Blueprint is deleted": _if(TEAM, lambda fake: fake.cluster.remove(TEAM)),
    "the use follows": _edit(USE, {"spec": {"updatePolicy": "Automatic"}}),
    "breaks are allowed": _marked(USE, allow_breaking_changes="true"),
    "the use names revision 2": _edit(USE, {"spec": {"blueprintRef": {"revision": 2}}}),
    "new parameters": _edit(USE, {"spec": {"parameters": {"topic": "nodes", "count": 4}}}),
    "an immutable one too": _edit(USE, {"spec": {"parameters": {"tier": "large"}}}),
    "wrong parameters": _edit(USE, {"spec": {"parameters": {"count": "four"}}}),
    "the use is suspended": _edit(USE, {"spec": {"suspend": True}}),
    "the use goes on": _edit(USE, {"spec": {"suspend": False}}),
    "its cells are kept": _edit(USE, {"spec": {"afterMission": "Keep"}}),
    "it has a time to live": _edit(USE, {"spec": {"ttlSecondsAfterFinished": 3600}}),
    "the use is deleted": _if(USE, lambda fake: fake.cluster.remove(USE)),
    "the formation drifts": _edit(FORMATION, {"spec": {"cells": []}}),
    "the formation is deleted": _if(FORMATION, lambda fake: fake.cluster.remove(FORMATION)),
    "the formation loses its owner": _edit(FORMATION, {"metadata": {"ownerReferences": None}}),
    "a stranger takes its name": _stranger,
    "the mission is deleted": _if(MISSION, lambda fake: fake.cluster.remove(MISSION)),
    "the mission drifts": _edit(MISSION, {"metadata": {"labels": {"kais.io/blueprint": "x"}}}),
    "a minute passes": lambda fake: fake.clock.advance(60),
    "an hour passes": lambda fake: fake.clock.advance(3600),
    "the store goes": _away(True),
    "the store is back": _away(False),
    "a create fails": _refused("create"),
    "a patch fails": _refused("patch"),
    "an apply fails": _refused("apply"),
    "a rendering takes too long": _limits,
    "status is wiped and the operator restarts": _restart,
}


def _head() -> dict[str, Any]:
    parameters = [
        *blueprints.blueprint()["spec"]["parameters"],
        {"name": "tier", "type": "string", "default": "small", "immutable": True},
    ]
    return blueprints.blueprint(parameters=parameters, revisionHistoryLimit=2)


async def _look(fake: FakeWorld) -> None:
    """Give everything one pass, as a queue with failures would."""
    for reconciler, ref in _keys(fake):
        try:
            await fake.step(reconciler, ref)
        except errors.ClusterError:
            continue
    fake.cluster.collect_garbage()


def _keys(fake: FakeWorld) -> list[Any]:
    revisions = [(blueprint_revision.CONTROLLER, r) for r in fake.cluster.refs("BlueprintRevision")]
    return [(blueprint.CONTROLLER, TEAM), *revisions, (blueprint_instance.CONTROLLER, USE)]


async def _settled(fake: FakeWorld) -> None:
    for _ in range(12):
        initial_count = len(fake.cluster.writes)
        await _look(fake)
        if len(fake.cluster.writes) == initial_count:
            return
    raise AssertionError(f"never settles; last writes: {fake.cluster.writes[-8:]}")


async def _play(names: Sequence[str]) -> FakeWorld:
    fake = fake_world(_head(), blueprints.instance(), renderer=InProcessRenderer())
    for name in names:
        EVENTS[name](fake)
        for _ in range(3):
            await _look(fake)
    fake.knowledge.away = False
    await _settled(fake)
    return fake


def _run_begun(fake: FakeWorld) -> list[str]:
    messages = [e["message"] for e in fake.cluster.events if e["reason"] == "RunBegun"]
    return [message.split()[1] for message in messages]


@settings(max_examples=60)
@given(st.lists(st.sampled_from(sorted(EVENTS)), max_size=10))
def test_any_history_settles_and_begins_each_run_once(names: list[str]) -> None:
    fake = asyncio.run(_play(names))
    wishes = 1 + len({"somebody asks for a rerun", "somebody asks for another"} & set(names))
    alternating = names.count("somebody asks for a rerun") + names.count(
        "somebody asks for another"
    )
    started = _run_begun(fake)
    assert len(started) <= max(wishes, 1 + alternating), f"more runs than wishes: {started}"
    if "a stranger takes its name" in names and FORMATION in fake.cluster.refs():
        metadata = fake.cluster.read(FORMATION)["metadata"]
        is_of_use = "kais.io/instance" in (metadata.get("labels") or {})  # it may have lost us
        if not metadata.get("ownerReferences") and not is_of_use:
            assert fake.cluster.read(FORMATION)["spec"] == {"cells": []}, "a stranger was touched"
    if USE in fake.cluster.refs():
        carried = uses.annotations_of(fake)
        if "kais.io/run-id" in carried:
            assert carried["kais.io/run-id"] in started or "a patch fails" in names
    numbers = [
        fake.cluster.read(r)["spec"]["revision"] for r in fake.cluster.refs("BlueprintRevision")
    ]
    assert len(numbers) == len(set(numbers)), "a number was given twice"


@settings(max_examples=30)
@given(st.lists(st.sampled_from(sorted(EVENTS)), max_size=8), st.integers(0, 2))
def test_a_use_never_loses_the_revision_that_it_stands_on(names: list[str], hours: int) -> None:
    fake = asyncio.run(_play(names))
    fake.clock.advance(3600 * hours)
    asyncio.run(_settled(fake))
    if USE not in fake.cluster.refs():
        return
    number = uses.metadata(fake).get("labels", {}).get("kais.io/revision")
    revisions = [
        fake.cluster.read(r)["spec"]["revision"] for r in fake.cluster.refs("BlueprintRevision")
    ]
    assert number is None or int(number) in revisions
