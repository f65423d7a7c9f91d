"""Teams under any order of events: they settle, and then nothing is left to be written."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kais_operator.controllers.cell.observe import cell
from kais_operator.controllers.formation import observe as formation
from kais_operator.controllers.knowledge_scope import observe as knowledge_scope
from kais_operator.controllers.namespace_account import observe as realm
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes import services, teams
from tests.fakes.teams import FORMATION
from tests.fakes.world import FakeWorld, fake_world

Event = Callable[[FakeWorld], Any]
REALM = ObjectRef("Realm", "demo", "demo")
RECONCILERS = {
    "Formation": formation.CONTROLLER,
    "Cell": cell.CONTROLLER,
    "KnowledgeScope": knowledge_scope.CONTROLLER,
}


def spec(*, scouts: int = 1, image: str = "worker:1", **changes: Any) -> Body:
    cells = [
        {"name": "lead", "spec": services.service()},
        {"name": "scout", "replicas": scouts, "spec": services.service(container={"image": image})},
        {"name": "clerk", "spec": teams.task()},
    ]
    return {"cells": cells, "topology": {"type": "full_mesh"}, **changes}


def _changed(**changes: Any) -> Event:
    def event(fake: FakeWorld) -> None:
        if FORMATION in fake.cluster.refs():
            full_fields = {"workspace": None, "knowledge": None, **spec(**changes)}
            fake.cluster.edit(FORMATION, {"spec": full_fields})

    return event


def _annotated(name: str, value: str | None) -> Event:
    def event(fake: FakeWorld) -> None:
        if FORMATION in fake.cluster.refs():
            fake.cluster.edit(FORMATION, {"metadata": {"annotations": {name: value}}})

    return event


def _pods(status: Callable[[], Body]) -> Event:
    def event(fake: FakeWorld) -> None:
        for ref in fake.cluster.refs("Deployment"):
            services.pod(fake, ref, status=status())

    return event


def _each(kind: str, act: Callable[[FakeWorld, ObjectRef], Any]) -> Event:
    def event(fake: FakeWorld) -> None:
        for ref in fake.cluster.refs(kind)[:2]:
            act(fake, ref)

    return event


def _edit_image(fake: FakeWorld, ref: ObjectRef) -> None:
    body = fake.cluster.read(ref)["spec"]
    body["template"]["spec"]["containers"][0]["image"] = "evil:1"
    fake.cluster.edit(ref, {"spec": body})


def _disown(fake: FakeWorld, ref: ObjectRef) -> None:
    fake.cluster.edit(ref, {"metadata": {"ownerReferences": []}})


def _remove(fake: FakeWorld, ref: ObjectRef) -> None:
    fake.cluster.remove(ref)


def _set_away(fake: FakeWorld, *, away: bool) -> None:
    fake.knowledge.away = away


def _wipe(fake: FakeWorld) -> None:
    for ref in [*fake.cluster.refs("Formation"), *fake.cluster.refs("Cell")]:
        fake.cluster.edit(ref, {"status": None})
    fake.sync_state.clear()


EVENTS: dict[str, Event] = {
    "it grows": _changed(scouts=3),
    "it shrinks": _changed(scouts=1),
    "its template changes": _changed(image="worker:2"),
    "it wants a workspace": _changed(workspace={"size": "1Gi"}),
    "its knowledge moves": _changed(knowledge={"scope": "apart"}),
    "its topology is wrong": _changed(topology={"type": "star", "hub": "boss"}),
    "it rests": _annotated("kais.io/scaled-down", "true"),
    "it wakes": _annotated("kais.io/scaled-down", None),
    "it is paused": _annotated("kais.io/reconcile", "suspended"),
    "it goes on": _annotated("kais.io/reconcile", None),
    "pods are ready": _pods(services.ready),
    "pods cannot pull": _pods(lambda: services.waiting("ErrImagePull", "no")),
    "pods crash": _pods(lambda: services.waiting("CrashLoopBackOff", "back-off 10s")),
    "images are edited": _each("Deployment", _edit_image),
    "Deployments are deleted": _each("Deployment", _remove),
    "Services are deleted": _each("Service", _remove),
    "Cells are deleted": _each("Cell", _remove),
    "Cells lose their owner": _each("Cell", _disown),
    "Deployments lose their owner": _each("Deployment", _disown),
    "pods are deleted": _each("Pod", _remove),
    "a minute passes": lambda fake: fake.clock.advance(60),
    "the store goes": lambda fake: _set_away(fake, away=True),
    "the store is back": lambda fake: _set_away(fake, away=False),
    "status is wiped and the operator restarts": _wipe,
    "its scope is deleted": _each("KnowledgeScope", _remove),
    "it is deleted": _each("Formation", _remove),
}


async def _look(fake: FakeWorld) -> None:
    fake.cluster.collect_garbage()
    for kind, reconciler in RECONCILERS.items():
        for ref in fake.cluster.refs(kind):
            await fake.step(reconciler, ref)
    await fake.step(realm.CONTROLLER, REALM)


async def _play(names: Sequence[str]) -> None:
    fake = fake_world(teams.thing("Formation", "team", spec=spec()), teams.scope(readOnly=True))
    for name in names:
        EVENTS[name](fake)
        for _ in range(2):
            await _look(fake)
    fake.knowledge.away = False
    for _ in range(8):
        await _look(fake)
    writes, calls = len(fake.cluster.writes), len(fake.knowledge.calls)
    await _look(fake)
    assert fake.cluster.writes[writes:] == []
    assert fake.knowledge.calls[calls:] == []
    owned = {ref.name for ref in fake.cluster.refs("Deployment")}
    assert owned <= {ref.name for ref in fake.cluster.refs("Cell")}


@settings(max_examples=25)
@given(st.lists(st.sampled_from(sorted(EVENTS)), max_size=8))
def test_a_team_settles_after_any_events(names: list[str]) -> None:
    asyncio.run(_play(names))
