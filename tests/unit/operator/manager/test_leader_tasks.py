"""What the watches' thread hands to the loop: each event once, in order, on its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kais_operator import errors
from kais_operator.informer.cache import Cache
from kais_operator.manager import leader_tasks
from kais_operator.planning.plan import Body, EmitEvent, ObjectRef, Plan, RunInContainer
from tests.fakes.reconcilers import reconciler_of
from tests.fakes.teams import thing
from tests.fakes.world import FakeWorld, fake_world


class Ear:
    """Hears names, and fails over the name `bad`."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def is_up_to_date(self, kind: str, body: dict[str, Any]) -> bool:
        return False

    def on_watch_event(self, kind: str, body: dict[str, Any], *, is_deleted: bool) -> None:
        if body["name"] == "bad":
            raise ValueError("bad")
        self.heard.append(body["name"])


@pytest.fixture
def fake() -> FakeWorld:
    return fake_world()


def session_of(fake: FakeWorld) -> leader_tasks.LeaderSession:
    unused: Any = None
    metrics: Any = SimpleNamespace(record_reconcile=None)
    return leader_tasks.LeaderSession(
        leader_tasks.ManagerDependencies(
            fake.world,
            fake.sync_state,
            unused,
            Cache(labelled=()),
            {},
            metrics,
            unused,
            unused,
            unused,
        )
    )


@pytest.fixture
async def term(fake: FakeWorld) -> leader_tasks.LeaderSession:
    leader_session = session_of(fake)
    ear: Any = Ear()
    leader_session._event_handler = ear
    leader_session._loop = asyncio.get_running_loop()
    return leader_session


def tell(term: leader_tasks.LeaderSession, *names: str) -> None:
    for name in names:
        term._on_event_in_thread("Cell", {"name": name}, False)


@pytest.mark.simulated_time
async def test_what_a_thread_tells_is_heard_once_and_in_order(term):
    names = [str(number) for number in range(3000)]
    await asyncio.to_thread(tell, term, *names)
    await asyncio.sleep(0.05)
    assert term._event_handler.heard == names


@pytest.mark.simulated_time
async def test_an_event_that_fails_keeps_none_of_the_others_back(term, caplog):
    tell(term, "one", "bad", "two", "three")
    await asyncio.sleep(0.05)
    assert term._event_handler.heard == ["one", "two", "three"]
    assert "ValueError: bad" in caplog.text


async def test_the_commands_of_a_term_end_with_it(term, fake, monkeypatch):
    """The next leader runs the open ones again."""

    async def nothing() -> None:
        return None

    monkeypatch.setattr(term, "_watch", nothing)
    monkeypatch.setattr(term, "_background_tasks", lambda: [nothing()])
    mission, pod = ObjectRef("Mission", "demo", "m"), ObjectRef("Pod", "demo", "p")
    command = RunInContainer("k", mission, pod, "cell", ("sleep", "1000"), 1000.0)
    fake.containers.start_command(command)
    await term.run(nothing(), asyncio.Event())
    assert fake.containers.ended == [command]


async def test_refusals_of_an_earlier_session_are_forgotten(
    term: leader_tasks.LeaderSession, fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another leader may have written what was refused here."""

    async def nothing() -> None:
        return None

    monkeypatch.setattr(term, "_watch", nothing)
    monkeypatch.setattr(term, "_background_tasks", lambda: [nothing()])
    mission = ObjectRef("Mission", "demo", "m")
    fake.world.write_refusals.note(mission, "exceeded quota")
    await term.run(nothing(), asyncio.Event())
    assert fake.world.write_refusals.refusal(mission) is None


KEYS = [ObjectRef("Formation", "demo", f"f-{number}") for number in range(3)]
EVENT = EmitEvent("Normal", "Begun", "it begins")


@pytest.fixture
async def ending(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Awaitable[None]]:
    """Return a function that runs a session until its end, in which Events wait."""
    for key in KEYS:
        metadata = {"name": key.name, "namespace": "demo", "uid": key.name, "resourceVersion": "1"}
        fake.cluster.put({"apiVersion": "kais.io/v1", "kind": key.kind, "metadata": metadata})

    async def run(lease_lost: asyncio.Event, stop: asyncio.Event) -> None:
        status: Body = {"conditions": []}
        reconciler = reconciler_of(
            fake, lambda _: Plan((EVENT,), status=status), backlog_age_s=lambda: 5.0
        )
        for key in KEYS:
            await reconciler(key)
        session = session_of(fake)
        session._reconciler = reconciler
        monkeypatch.setattr(session, "_watch", asyncio.Event().wait)
        monkeypatch.setattr(session, "_background_tasks", lambda: [session.queue.run()])
        running = asyncio.create_task(session.run(until(lease_lost), stop))
        await asyncio.sleep(0)
        assert fake.cluster.events == []
        lease_lost.set() if not stop.is_set() else None
        await running

    return run


async def until(event: asyncio.Event) -> None:
    await event.wait()


def set_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@pytest.mark.simulated_time
async def test_events_that_wait_are_written_when_the_operator_is_asked_to_stop(ending, fake):
    await ending(asyncio.Event(), set_event())
    assert [event["reason"] for event in fake.cluster.events] == ["Begun"] * len(KEYS)


@pytest.mark.simulated_time
async def test_events_that_wait_are_not_written_when_the_lease_is_lost(ending, fake):
    await ending(asyncio.Event(), asyncio.Event())
    assert fake.cluster.events == []


@pytest.mark.simulated_time
async def test_events_that_wait_delay_the_end_of_an_operator_no_longer_than_reconciles_do(
    ending, fake, monkeypatch, caplog
):
    monkeypatch.setattr(fake.cluster, "emit", lambda *_, **__: asyncio.Event().wait())
    started_at = asyncio.get_running_loop().time()
    await ending(asyncio.Event(), set_event())
    passed_s = asyncio.get_running_loop().time() - started_at
    assert passed_s == pytest.approx(leader_tasks.DRAIN_TIMEOUT_S)
    assert "some Events were not written in time" in caplog.text


@pytest.fixture
def team(fake: FakeWorld) -> leader_tasks.LeaderSession:
    """Return a session that watches the namespaces `a` and `b`, each with a KnowledgeScope."""
    for namespace in ("a", "b"):
        fake.cluster.put(thing("KnowledgeScope", "all", spec={}, namespace=namespace))
    placement = replace(fake.world.placement, watched_namespaces=("a", "b"))
    return session_of(replace(fake, world=replace(fake.world, placement=placement)))


def leave(session: leader_tasks.LeaderSession, namespace: str) -> None:
    """Have all lists of a namespace be forbidden, and those of the others work."""
    for target in session._targets:
        if target.namespace == namespace:
            session.watch_health.record_forbidden(target.kind, target.namespace)
        else:
            session.watch_health.record_list(target.kind, target.namespace)


async def scopes_of(session: leader_tasks.LeaderSession) -> list[str]:
    bodies = await session._list_kind("KnowledgeScope")
    return sorted(body["metadata"]["namespace"] for body in bodies)


async def test_objects_of_all_present_namespaces_are_queued_again(team, caplog):
    assert await scopes_of(team) == ["a", "b"]
    leave(team, "b")
    caplog.clear()
    assert await scopes_of(team) == ["a"]
    assert caplog.records == []


async def test_a_namespace_that_cannot_be_listed_keeps_no_other_one_back(
    team, fake, monkeypatch, caplog
):
    list_all = fake.cluster.list

    async def refuse(kind: str, namespace: str | None, **options: Any) -> Sequence[Body]:
        if namespace == "a":
            raise errors.Forbidden("no right")
        return await list_all(kind, namespace, **options)

    monkeypatch.setattr(fake.cluster, "list", refuse)
    assert await scopes_of(team) == ["b"]
    assert "cannot list KnowledgeScope in a: no right" in caplog.text


def test_kopf_watches_the_namespaces_that_are_present(team):
    assert team._watch_control.scope.namespaces == ("a", "b")
    leave(team, "b")
    assert team._watch_control.scope.namespaces == ("a",)
    for target in team._targets:
        team.watch_health.record_list(target.kind, target.namespace)
    assert team._watch_control.scope.namespaces == ("a", "b")


def test_kopf_never_watches_the_whole_cluster_instead_of_named_namespaces(team):
    """An empty scope would mean all namespaces."""
    for namespace in ("a", "b"):
        leave(team, namespace)
    for target in team._targets:
        team.watch_health.record_forbidden(target.kind, target.namespace)
    assert team._watch_control.scope.namespaces == ("a", "b")


async def test_keys_of_an_absent_namespace_wait_and_are_reconciled_when_it_is_back(
    team, monkeypatch, caplog
):
    reconciled: list[ObjectRef] = []

    async def reconcile(key: ObjectRef) -> None:
        reconciled.append(key)

    monkeypatch.setattr(team, "_reconciler", reconcile)
    here, gone = ObjectRef("KnowledgeScope", "a", "all"), ObjectRef("KnowledgeScope", "b", "all")
    realm = ObjectRef("Realm", "", "b")
    leave(team, "b")
    caplog.clear()
    assert [await team._reconcile(key) for key in (here, gone, realm)] == [None, 30.0, 30.0]
    assert reconciled == [here]
    team.watch_health.record_list("Cell", "b")
    assert [await team._reconcile(key) for key in (gone, realm)] == [None, None]
    assert reconciled == [here, gone, realm]
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []
