"""What kopf is told to watch, and what of its events concerns us."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import kopf
import pytest
from kopf._cogs.aiokits import aioadapters

from kais_operator.kubernetes.watch_credentials import Credentials
from kais_operator.manager import kopf_watches
from kais_operator.manager.kopf_watches import WatchControl, WatchScope


async def no_login() -> Credentials:
    raise AssertionError("nobody logs in here")


def test_kopf_waits_for_nothing_without_end_and_writes_nothing():
    settings = kopf_watches.build_settings(is_namespaced=False)
    assert (settings.watching.server_timeout, settings.watching.client_timeout) == (300, 330)
    assert settings.watching.connect_timeout == 10
    assert settings.watching.inactivity_timeout < 90
    assert max(settings.queueing.error_delays) == 60
    assert not settings.posting.enabled
    assert not settings.scanning.disabled


def test_kopf_copies_and_compares_no_object():
    persistence = kopf_watches.build_settings(is_namespaced=False).persistence
    body = kopf.Body({"spec": {"a": 1}, "metadata": {"annotations": {"b": "c"}}})
    assert persistence.diffbase_storage.fetch(body=body) is None
    assert persistence.diffbase_storage.build(body=body) == {}
    assert persistence.progress_storage.clear(essence={"a": 1}) == {"a": 1}


def test_kopf_looks_for_no_kinds_and_namespaces_in_namespace_mode():
    assert kopf_watches.build_settings(is_namespaced=True).scanning.disabled


def test_leases_are_selected_by_our_label_and_our_kinds_are_not():
    selectors = kopf_watches.build_settings(is_namespaced=False).watching.label_selectors
    assert selectors["coordination.k8s.io", "v1", "leases"] == "app.kubernetes.io/managed-by=kais"
    assert ("kais.io", "v1", "blueprints") not in selectors


def test_all_of_the_cluster_is_watched_and_leases_at_home():
    scope = WatchScope((), "home")
    assert scope.watched == ()
    assert scope.covers("Blueprint", "a")
    assert scope.covers("Lease", "home")
    assert not scope.covers("Lease", "a")


def test_the_probe_is_watched_at_home_in_namespace_mode():
    scope = WatchScope(("b", "a"), "home")
    assert scope.watched == ("a", "b", "home")
    assert scope.covers("Lease", "home")
    assert scope.covers("Blueprint", "a")
    assert not scope.covers("Blueprint", "home")
    assert not scope.covers("Blueprint", "other")


async def test_an_event_is_told_with_its_kind_and_whether_the_object_is_gone():
    messages: list[tuple[str, str, bool]] = []

    def happened(kind: str, body: dict[str, Any], is_deleted: bool) -> None:
        messages.append((kind, body["metadata"]["name"], is_deleted))

    registry = kopf_watches.build_registry(WatchScope(("a",), "home"), happened, no_login)
    handlers = {
        str(watching_handler.id): watching_handler.fn
        for watching_handler in registry._watching._handlers
    }
    assert set(handlers) == {kind.lower() for kind in kopf_watches.WATCHED_KINDS}
    for kind, name, namespace, type_ in (
        ("blueprint", "m", "a", None),
        ("knowledgescope", "c", "a", "DELETED"),
        ("knowledgescope", "hidden", "home", "ADDED"),
    ):
        body = {"metadata": {"name": name, "namespace": namespace}}
        await handlers[kind](event={"type": type_, "object": body})
    assert messages == [("Blueprint", "m", False), ("KnowledgeScope", "c", True)]


async def test_kopf_is_left_the_metadata_of_what_it_told():
    messages: list[dict[str, Any]] = []
    registry = kopf_watches.build_registry(
        WatchScope((), "home"), lambda _kind, body, _is_gone: messages.append(body), no_login
    )
    handlers = {
        str(watching_handler.id): watching_handler.fn
        for watching_handler in registry._watching._handlers
    }
    metadata = {"name": "c", "namespace": "a", "managedFields": [{"manager": "kubectl"}]}
    event = {"type": None, "object": {"metadata": metadata, "spec": {"a": 1}, "status": {}}}
    await handlers["blueprint"](event=event)
    observed = {"name": "c", "namespace": "a"}
    assert messages == [{"metadata": observed, "spec": {"a": 1}, "status": {}}]
    assert event["object"] == {"metadata": observed}


Run = Callable[[int, asyncio.Event], Awaitable[None]]
"""Stands for the watches of one kopf; takes its number and its stop flag."""


async def watch(
    monkeypatch: pytest.MonkeyPatch, control: WatchControl, run: Run
) -> list[tuple[str, ...]]:
    """Watch until the control is stopped, and give what each kopf watched."""
    started: list[tuple[str, ...]] = []

    async def spawn_tasks(**options: Any) -> list[asyncio.Task[None]]:
        assert options["clusterwide"] == (not options["namespaces"])
        started.append(options["namespaces"])
        return [asyncio.create_task(run(len(started), options["stop_flag"]))]

    monkeypatch.setattr(kopf, "spawn_tasks", spawn_tasks)
    try:
        async with asyncio.timeout(60):
            await kopf_watches.watch(control, lambda *_: None, no_login)
    finally:
        control.stop()
    return started


A, B = WatchScope(("a", "b"), "home"), WatchScope(("a",), "home")
WATCHED_A, WATCHED_B = ("a", "b", "home"), ("a", "home")


async def test_watches_that_end_begin_anew_until_they_are_told_to_stop(monkeypatch, caplog):
    monkeypatch.setattr(kopf_watches, "_RESTART_DELAY_S", 0.001)
    control = WatchControl(WatchScope((), "home"))

    async def run(number: int, _: asyncio.Event) -> None:
        if number == 3:
            control.stop()
        raise PermissionError("pods are forbidden")

    assert await watch(monkeypatch, control, run) == [(), (), ()]
    assert "kopf's watches ended and are restarted: PermissionError('pods are forbidden')" in (
        caplog.text
    )


async def test_watches_end_and_begin_with_other_namespaces_when_these_change(monkeypatch):
    control = WatchControl(A)

    async def run(number: int, stop_flag: asyncio.Event) -> None:
        change = (lambda: control.set_scope(B)) if number == 1 else control.stop
        threading.Timer(0.05, change).start()
        await stop_flag.wait()

    assert await watch(monkeypatch, control, run) == [WATCHED_A, WATCHED_B]


async def test_watches_continue_while_their_namespaces_stay_the_same(monkeypatch):
    control = WatchControl(A)

    async def run(_: int, stop_flag: asyncio.Event) -> None:
        control.set_scope(WatchScope(A.namespaces, A.operator_namespace))
        await asyncio.sleep(0.05)
        assert not stop_flag.is_set()
        control.stop()
        await stop_flag.wait()

    assert await watch(monkeypatch, control, run) == [WATCHED_A]


async def test_a_failed_kopf_begins_at_once_when_its_namespaces_change(monkeypatch):
    """It need not wait for its delay, nor need the stop."""
    monkeypatch.setattr(kopf_watches, "_RESTART_DELAY_S", 1000)
    control = WatchControl(A)

    async def run(number: int, _: asyncio.Event) -> None:
        change = (lambda: control.set_scope(B)) if number == 1 else control.stop
        threading.Timer(0.05, change).start()
        raise PermissionError("blueprints are forbidden")

    assert await watch(monkeypatch, control, run) == [WATCHED_A, WATCHED_B]


async def test_kopf_ends_when_it_was_stopped_while_it_began(monkeypatch):
    control = WatchControl(A)

    def stop_meanwhile(**_: Any) -> kopf.OperatorSettings:
        control.stop()
        return kopf.OperatorSettings()

    monkeypatch.setattr(kopf_watches, "build_settings", stop_meanwhile)
    assert await watch(monkeypatch, control, lambda _, flag: wait_set(flag)) == [WATCHED_A]


async def wait_set(flag: asyncio.Event) -> None:
    await flag.wait()


async def test_an_outdated_scope_is_not_watched():
    control = WatchControl(A)
    control.set_scope(B)
    with control.kopf_flag(A) as outdated, control.kopf_flag(B) as current:
        assert (outdated.is_set(), current.is_set()) == (True, False)


def test_a_stop_after_kopf_has_ended_reaches_no_closed_loop():
    control = WatchControl(A)

    async def run() -> None:
        with control.kopf_flag(A):
            pass

    asyncio.run(run())
    control.set_scope(B)
    control.stop()
    assert control.is_stopped


async def test_kopf_begins_anew_after_it_failed_while_nobody_stops_it(monkeypatch):
    """A flag of threads would keep a thread of the loop waiting, and the loop with it."""
    monkeypatch.setattr(kopf_watches, "_RESTART_DELAY_S", 0.001)
    monkeypatch.setattr(kopf_watches, "_CANCEL_PERIOD_S", 0.01)
    control = WatchControl(A)
    waiting: list[asyncio.Task[Any]] = []

    async def run(number: int, stop_flag: asyncio.Event) -> None:
        if number > 1:
            control.stop()
            return
        waiting.append(asyncio.create_task(aioadapters.wait_flag(stop_flag)))
        await asyncio.sleep(0.01)
        raise PermissionError("blueprints are forbidden")

    assert await watch(monkeypatch, control, run) == [WATCHED_A, WATCHED_A]
    assert waiting[0].cancelled()


async def test_kopf_begins_anew_although_a_watch_swallowed_that_it_was_cancelled(
    monkeypatch, caplog
):
    """So does a watch of kopf that is about to log in again."""
    monkeypatch.setattr(kopf_watches, "_RESTART_DELAY_S", 0.001)
    monkeypatch.setattr(kopf_watches, "_CANCEL_PERIOD_S", 0.01)
    control = WatchControl(A)
    watches: list[asyncio.Task[None]] = []

    async def run(number: int, _: asyncio.Event) -> None:
        if number > 1:
            control.stop()
            return
        watches.append(asyncio.create_task(watch_on()))
        await asyncio.sleep(0.01)
        raise PermissionError("blueprints are forbidden")

    async def watch_on() -> None:
        for _ in range(3):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(1000)
        await asyncio.sleep(1000)

    assert await watch(monkeypatch, control, run) == [WATCHED_A, WATCHED_A]
    assert watches[0].cancelled()
    assert "restarted: PermissionError('blueprints are forbidden')" in caplog.text
