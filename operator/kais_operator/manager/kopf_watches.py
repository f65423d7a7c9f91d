"""Watches Blueprints and scopes with kopf; the only module that imports it.

`informer.child_watches` watches instances and their children.

Handlers are low-level event handlers, so kopf stores nothing on the objects: no annotation, no
finalizer, no diff. Nothing is registered at import; each leader session builds its own registry.
Watches run in a thread: `on_event` and `login` are called there and hand over to the main loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import threading
from collections.abc import Awaitable, Callable, Collection, Iterator
from collections.abc import Set as AbstractSet
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
_CANCEL_PERIOD_S = 1.0
"""How often the tasks of a kopf that ends are cancelled."""
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


class WatchControl:
    """What kopf watches, and whether it has to stop; may be used in any thread."""

    def __init__(self, scope: WatchScope) -> None:
        self._changed = threading.Condition()
        self._scope = scope
        self._is_stopped = False
        self._end_kopf: Callable[[], object] = _do_nothing

    @property
    def scope(self) -> WatchScope:
        """What to watch now."""
        return self._scope

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._is_stopped

    def set_scope(self, scope: WatchScope) -> None:
        """Have kopf restarted with this scope if it has another one."""
        with self._changed:
            if scope != self._scope:
                self._scope = scope
                self._end_outdated()

    def stop(self) -> None:
        """Have kopf end, and not be started again."""
        with self._changed:
            self._is_stopped = True
            self._end_outdated()

    @contextlib.contextmanager
    def kopf_flag(self, scope: WatchScope) -> Iterator[asyncio.Event]:
        """Yield a flag of the running loop that is set when kopf must not watch `scope` any more.

        For a flag of threads kopf would keep a thread waiting. A kopf that fails waits for its
        threads, so it would never be restarted.
        """
        loop, flag = asyncio.get_running_loop(), asyncio.Event()
        with self._changed:
            self._end_kopf = functools.partial(loop.call_soon_threadsafe, flag.set)
            if self._is_outdated(scope):
                flag.set()
        try:
            yield flag
        finally:
            with self._changed:
                self._end_kopf = _do_nothing  # the loop closes next

    def wait_outdated(self, scope: WatchScope, *, timeout_s: float) -> None:
        """Wait in a thread, for at most `timeout_s`, until `scope` must not be watched any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_outdated(scope), timeout_s)

    def _is_outdated(self, scope: WatchScope) -> bool:
        return self._is_stopped or scope != self._scope

    def _end_outdated(self) -> None:
        self._end_kopf()
        self._changed.notify_all()


def _do_nothing() -> None:
    """End no kopf: none is running."""


async def watch(
    control: WatchControl,
    on_event: EventCallback,
    login: Callable[[], Awaitable[Credentials]],
) -> None:
    """Watch until `control` is stopped; kopf is restarted when it fails or the scope changes.

    Runs in a thread with its own event loop: kopf takes over the signals of the main thread, and
    when it stops, it cancels every task of its loop. Cancelling this call does not end the thread;
    `control` does.
    """
    await asyncio.to_thread(_watch_until_stopped, control, on_event, login)


def _watch_until_stopped(
    control: WatchControl,
    on_event: EventCallback,
    login: Callable[[], Awaitable[Credentials]],
) -> None:
    while not control.is_stopped:
        scope = control.scope
        registry = build_registry(scope, on_event, login)
        try:
            uvloop.run(_run_kopf(registry, scope, control))
        except Exception as exc:  # noqa: BLE001 (whatever stopped kopf, watches must continue)
            logger.warning("kopf's watches ended and are restarted: %r", exc)
        control.wait_outdated(scope, timeout_s=_RESTART_DELAY_S)


async def _run_kopf(
    registry: kopf.OperatorRegistry, scope: WatchScope, control: WatchControl
) -> None:
    """Run kopf until it fails or its flag is set.

    Raises:
        Exception: What ended it.
    """
    own_tasks = asyncio.all_tasks()
    with control.kopf_flag(scope) as stop_flag:
        root_tasks = await kopf.spawn_tasks(
            registry=registry,
            settings=build_settings(is_namespaced=bool(scope.namespaces)),
            # Without an identity, kopf looks up the user's name, which an arbitrary UID lacks.
            identity=cast("Any", labels.MANAGER_CHILDREN),
            standalone=True,
            clusterwide=not scope.namespaces,
            namespaces=scope.watched,
            stop_flag=stop_flag,
        )
        ending = asyncio.create_task(_cancel_leftovers(root_tasks, kept={*own_tasks, *root_tasks}))
        try:
            await kopf.run_tasks(root_tasks, ignored={*own_tasks, ending})
        finally:
            ending.cancel()


async def _cancel_leftovers(
    root_tasks: Collection[asyncio.Task[Any]], *, kept: AbstractSet[asyncio.Task[Any]]
) -> None:
    """Once kopf ends, cancel all of its tasks again and again, except the root tasks.

    When one watch fails, kopf leaves the others running, cancels them once, and waits for them. A
    watch that is about to log in again can swallow that, and kopf would never end.
    """
    await asyncio.wait(root_tasks, return_when=asyncio.FIRST_COMPLETED)
    while True:
        for task in asyncio.all_tasks() - kept - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(_CANCEL_PERIOD_S)


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
