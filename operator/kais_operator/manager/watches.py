"""The only module that speaks kopf: what is watched, how, and to whom each event goes.

Handlers are low-level event handlers, so kopf keeps nothing on the objects: no annotation, no
finalizer, no diff. Nothing is registered at import; each leadership builds a registry of its own.
Watches run in a thread: `happened` and `login` are called there and hand over to the main loop.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

import kopf

from kais import labels
from kais_operator.informer import watch_targets
from kais_operator.kubernetes import api_paths
from kais_operator.kubernetes.credentials import Credentials
from kais_operator.planning.plan import Body

logger = logging.getLogger(__name__)

WATCHED_KINDS = (*watch_targets.KINDS, *watch_targets.CHILD_KINDS, watch_targets.HEARTBEAT_KIND)
_LABEL_SELECTED_KINDS = (
    *sorted({*watch_targets.CHILD_KINDS} - watch_targets.WATCHED_WITHOUT_LABEL),
    watch_targets.HEARTBEAT_KIND,
)
_RESTART_DELAY_S = 5.0
"""kopf ends with the first kind that it is refused; so soon it begins anew."""
EventCallback = Callable[[str, Body, bool], None]
"""Takes kind, body and whether the object is gone; called in the watches' thread."""


class _NoDiffBase(kopf.DiffBaseStorage):
    """Keeps no state to compare with: low-level handlers are called for each event.

    What kopf does otherwise, copy each object twice and compare, took a third of its time.
    """

    def build(self, *, body: Any, extra_fields: Any = None) -> Any:
        """Give nothing to compare."""
        return {}

    def fetch(self, *, body: Any) -> Any:
        """Give no former state."""
        return None

    def store(self, *, body: Any, patch: Any, essence: Any) -> None:
        """Write nothing."""


class _NoProgress(kopf.ProgressStorage):
    """Keeps no progress: low-level handlers have none."""

    def fetch(self, *, key: Any, body: Any) -> Any:
        """Give no progress."""
        return None

    def store(self, *, key: Any, record: Any, body: Any, patch: Any) -> None:
        """Write nothing."""

    def purge(self, *, key: Any, body: Any, patch: Any) -> None:
        """Write nothing."""

    def touch(self, *, body: Any, patch: Any, value: str | None) -> None:
        """Write nothing."""

    def clear(self, *, essence: Any) -> Any:
        """Give what is to be compared, in which there is no progress."""
        return essence


@dataclass(frozen=True)
class WatchScope:
    """Where is watched: all of the cluster when no namespace is named.

    kopf watches every kind in every namespace that it watches at all, so what it tells of more than
    is wanted of the operator's own namespace ends here.
    """

    namespaces: tuple[str, ...]
    operator_namespace: str

    @property
    def watched(self) -> tuple[str, ...]:
        """The namespaces for kopf: with the operator's own, for the probe and the outbox."""
        if not self.namespaces:
            return ()
        return tuple(sorted({*self.namespaces, self.operator_namespace}))

    def covers(self, kind: str, namespace: str) -> bool:
        """Whether an object of this kind concerns us there."""
        is_home = namespace == self.operator_namespace
        if kind == watch_targets.HEARTBEAT_KIND:
            return is_home
        return (
            not self.namespaces or namespace in self.namespaces or (kind == "ConfigMap" and is_home)
        )


def build_registry(
    scope: WatchScope, on_event: EventCallback, login: Callable[[], Awaitable[Credentials]]
) -> kopf.OperatorRegistry:
    """Register one event handler per watched kind, and the login."""
    registry = kopf.OperatorRegistry()
    for kind in WATCHED_KINDS:
        _register(registry, kind, scope, on_event)

    async def log_in(**_: Any) -> kopf.ConnectionInfo:
        return _connection_info(await login())

    kopf.on.login(registry=registry, id="login")(log_in)
    return registry


def build_settings(*, is_namespaced: bool) -> kopf.OperatorSettings:
    """Fix what kopf would otherwise wait for without end, write, or read too much of."""
    settings = kopf.OperatorSettings()
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 330
    settings.watching.connect_timeout = 10
    # All kinds are listed at once, and a page takes ten times its bytes until it is told.
    settings.watching.chunk_size = 100
    settings.queueing.error_delays = (1, 1, 2, 3, 5, 8, 13, 21, 34, 60)
    settings.posting.enabled = False
    settings.persistence.diffbase_storage = _NoDiffBase()
    settings.persistence.progress_storage = _NoProgress()
    settings.scanning.disabled = is_namespaced
    for kind in _LABEL_SELECTED_KINDS:
        group, version, plural = _resource(kind)
        settings.watching.label_selectors[group, version, plural] = watch_targets.CHILD_SELECTOR
    return settings


async def watch(
    scope: WatchScope,
    on_event: EventCallback,
    login: Callable[[], Awaitable[Credentials]],
    *,
    stop: threading.Event,
) -> None:
    """Watch until `stop` is set.

    In a thread with an event loop of its own: kopf takes over the signals of the main thread, and
    when it stops it cancels every task of its loop, ours too. Cancelling this leaves the thread to
    its `stop`.
    """
    await asyncio.to_thread(_watch_until, scope, on_event, login, stop)


def _watch_until(
    scope: WatchScope,
    on_event: EventCallback,
    login: Callable[[], Awaitable[Credentials]],
    stop: threading.Event,
) -> None:
    while not stop.is_set():
        registry = build_registry(scope, on_event, login)
        try:
            asyncio.run(_run_kopf(registry, scope, stop))
        except Exception as exc:  # noqa: BLE001 (whatever ended kopf, no event may be the last)
            logger.warning("kopf's watches ended and are restarted: %r", exc)
        stop.wait(_RESTART_DELAY_S)


async def _run_kopf(
    registry: kopf.OperatorRegistry, scope: WatchScope, stop: threading.Event
) -> None:
    await kopf.operator(
        registry=registry,
        settings=build_settings(is_namespaced=bool(scope.namespaces)),
        # Without one kopf asks for the user's name, which an arbitrary UID does not have.
        identity=cast("Any", labels.MANAGER_CHILDREN),
        standalone=True,
        clusterwide=not scope.namespaces,
        namespaces=scope.watched,
        stop_flag=stop,
    )


def _register(
    registry: kopf.OperatorRegistry, kind: str, scope: WatchScope, on_event: EventCallback
) -> None:
    async def handle(event: Any, **_: Any) -> None:
        body = _detach_object(event)
        if scope.covers(kind, body["metadata"].get("namespace") or ""):
            on_event(kind, body, event["type"] == "DELETED")

    group, version, plural = _resource(kind)
    kopf.on.event(group, version, plural, registry=registry, id=kind.lower())(handle)


def _detach_object(event: Any) -> Body:
    """Take the object out of an event, and leave kopf its metadata.

    kopf holds each object's last event for some seconds, in case another one follows. When it
    begins it does so for all objects at once, whole, and what that takes is never given back.
    """
    kopf_body = event["object"]
    kopf_body["metadata"].pop("managedFields", None)
    body = dict(kopf_body)
    for name in body.keys() - {"apiVersion", "kind", "metadata"}:
        del kopf_body[name]
    return body


def _resource(kind: str) -> tuple[str, str, str]:
    resource = api_paths.RESOURCES[kind]
    group, _, version = resource.api_version.rpartition("/")
    return group, version, resource.plural


def _connection_info(login: Credentials) -> kopf.ConnectionInfo:
    return kopf.ConnectionInfo(
        server=login.server,
        ca_path=login.ca_path,
        insecure=login.is_insecure,
        certificate_path=login.certificate_path,
        private_key_path=login.private_key_path,
        scheme=login.scheme,
        token=login.token,
        username=login.username,
        password=login.password,
        proxy_url=login.proxy_url,
    )
