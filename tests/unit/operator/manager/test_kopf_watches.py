"""What kopf is told to watch, and what of its events concerns us."""

from __future__ import annotations

import threading
from typing import Any

import kopf

from kais_operator.kubernetes.watch_credentials import Credentials
from kais_operator.manager import kopf_watches
from kais_operator.manager.kopf_watches import WatchScope


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


async def test_watches_that_end_begin_anew_until_they_are_told_to_stop(monkeypatch, caplog):
    stop = threading.Event()
    started: list[bool] = []

    async def operator(**options: Any) -> None:
        started.append(options["clusterwide"])
        if len(started) == 3:
            stop.set()
        raise PermissionError("pods are forbidden")

    monkeypatch.setattr(kopf_watches, "_RESTART_DELAY_S", 0.001)
    monkeypatch.setattr(kopf, "operator", operator)
    await kopf_watches.watch(WatchScope((), "home"), lambda *_: None, no_login, stop=stop)
    assert started == [True, True, True]
    assert "kopf's watches ended and are restarted: PermissionError('pods are forbidden')" in (
        caplog.text
    )
