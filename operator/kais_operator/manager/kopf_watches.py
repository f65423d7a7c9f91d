"""Watches Blueprints and scopes with kopf; the only module that imports it.

`informer.child_watches` watches instances and their children.

Handlers are low-level event handlers, so kopf stores nothing on the objects: no annotation, no
finalizer, no diff. Nothing is registered at import; each leader session builds its own registry.
Watches run in a thread: `on_event` and `login` are called there and hand over to the main loop.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

import aiohttp
import kopf
import uvloop

from kais import labels
from kais_operator.informer import watch_targets
from kais_operator.kubernetes import api_paths
from kais_operator.kubernetes.readable_responses import ReadableResponse
from kais_operator.kubernetes.watch_credentials import Credentials
from kais_operator.planning.plan import Body

logger = logging.getLogger(__name__)

WATCHED_KINDS = (*watch_targets.KOPF_KINDS, watch_targets.HEARTBEAT_KIND)
_RESTART_DELAY_S = 5.0
"""kopf stops at the first kind that it is refused; it is restarted after this delay."""
EventCallback = Callable[[str, Body, bool], None]
"""Takes kind, body, and whether the object was deleted; called in the thread of the watches."""


class _NoDiffBase(kopf.DiffBaseStorage):
    """Keeps no state to compare with: low-level handlers are called for each event.

    By default kopf copies each object twice and compares it, which took a third of its time.
    """

    def build(self, *, body: Any, extra_fields: Any = None) -> Any:
        """Return nothing to compare."""
        return {}

    def fetch(self, *, body: Any) -> Any:
        """Return no earlier state."""
        return None

    def store(self, *, body: Any, patch: Any, essence: Any) -> None:
        """Write nothing."""


class _NoProgress(kopf.ProgressStorage):
    """Keeps no progress: low-level handlers have none."""

    def fetch(self, *, key: Any, body: Any) -> Any:
        """Return no progress."""
        return None

    def store(self, *, key: Any, record: Any, body: Any, patch: Any) -> None:
        """Write nothing."""

    def purge(self, *, key: Any, body: Any, patch: Any) -> None:
        """Write nothing."""

    def touch(self, *, body: Any, patch: Any, value: str | None) -> None:
        """Write nothing."""

    def clear(self, *, essence: Any) -> Any:
        """Return the essence, which contains no progress."""
        return essence


@dataclass(frozen=True)
class WatchScope:
    """The namespaces that are watched; the whole cluster if `namespaces` is empty.

    kopf watches every kind in all of its namespaces, including the operator's own. `covers` drops
    the events of the operator's namespace that are not needed.
    """

    namespaces: tuple[str, ...]
    operator_namespace: str

    @property
    def watched(self) -> tuple[str, ...]:
        """The namespaces for kopf, including the operator's own for the watch heartbeat."""
        if not self.namespaces:
            return ()
        return tuple(sorted({*self.namespaces, self.operator_namespace}))

    def covers(self, kind: str, namespace: str) -> bool:
        """Return whether objects of this kind in a namespace are watched."""
        if kind == watch_targets.HEARTBEAT_KIND:
            return namespace == self.operator_namespace
        return not self.namespaces or namespace in self.namespaces


def build_registry(
    scope: WatchScope, on_event: EventCallback, login: Callable[[], Awaitable[Credentials]]
) -> kopf.OperatorRegistry:
    """Register one event handler per watched kind, and the login."""
    registry = kopf.OperatorRegistry()
    for kind in WATCHED_KINDS:
        _register(registry, kind, scope, on_event)

    async def log_in(**_: Any) -> kopf.AiohttpSession:
        return _open_session(await login())

    kopf.on.login(registry=registry, id="login")(log_in)
    return registry


def build_settings(*, is_namespaced: bool) -> kopf.OperatorSettings:
    """Bound timeouts and page sizes, and disable everything that writes to objects."""
    settings = kopf.OperatorSettings()
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 330
    settings.watching.connect_timeout = 10
    # All kinds are listed at once, and a page takes ten times its size until it is processed.
    settings.watching.chunk_size = 100
    settings.queueing.error_delays = (1, 1, 2, 3, 5, 8, 13, 21, 34, 60)
    settings.posting.enabled = False
    settings.persistence.diffbase_storage = _NoDiffBase()
    settings.persistence.progress_storage = _NoProgress()
    settings.scanning.disabled = is_namespaced
    heartbeats = _resource(watch_targets.HEARTBEAT_KIND)
    settings.watching.label_selectors[heartbeats] = watch_targets.CHILD_SELECTOR
    return settings


async def watch(
    scope: WatchScope,
    on_event: EventCallback,
    login: Callable[[], Awaitable[Credentials]],
    *,
    stop: threading.Event,
) -> None:
    """Watch until `stop` is set.

    Runs in a thread with its own event loop: kopf takes over the signals of the main thread, and
    when it stops, it cancels every task of its loop. Cancelling this call does not end the thread;
    `stop` does.
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
            uvloop.run(_run_kopf(registry, scope, stop))
        except Exception as exc:  # noqa: BLE001 (whatever stopped kopf, watches must continue)
            logger.warning("kopf's watches ended and are restarted: %r", exc)
        stop.wait(_RESTART_DELAY_S)


async def _run_kopf(
    registry: kopf.OperatorRegistry, scope: WatchScope, stop: threading.Event
) -> None:
    await kopf.operator(
        registry=registry,
        settings=build_settings(is_namespaced=bool(scope.namespaces)),
        # Without an identity, kopf looks up the user's name, which an arbitrary UID does not have.
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
    """Move the object out of an event, and leave only its metadata to kopf.

    kopf keeps each object's last event for some seconds, in case another one follows. At its start
    it does so for all objects at once, and that memory would never be returned.
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


def _open_session(login: Credentials) -> kopf.AiohttpSession:
    """Open a session as kopf does, whose responses lack what nests too deeply.

    kopf would end at such an object, and again at each restart.
    """
    connection_info = _connection_info(login)
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=connection_info.as_ssl_context()),
        headers=connection_info.as_http_headers(),
        proxy=connection_info.proxy_url,
        response_class=ReadableResponse,
    )
    return kopf.AiohttpSession(server=login.server, aiohttp_session=session)


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
