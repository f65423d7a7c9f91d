"""The only module that speaks kopf: what is watched, how, and that each event becomes keys.

Handlers are low-level event handlers, so kopf keeps nothing on the objects: no annotation, no
finalizer, no diff. Nothing is registered at import; each leadership builds a registry of its own.
Watches run in a thread: `told` and `login` are called there and hand over to the main loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any, cast

import kopf

from kais import labels
from kais_operator.adapters import api_paths
from kais_operator.adapters.logins import Login
from kais_operator.decide.plan import Body
from kais_operator.handlers import routing

CHILD_SELECTOR = f"{labels.MANAGED_BY}={labels.MANAGER}"
PROBE = "Lease"
"""The watch probe's kind; its event goes the same way as all others."""
Told = Callable[[str, Body, bool], None]
"""Takes kind, body and whether the object is gone; called in the watches' thread."""


def build_registry(
    told: Told, login: Callable[[], Awaitable[Login]], *, with_probe: bool
) -> kopf.OperatorRegistry:
    """Register one event handler per watched kind, and the login."""
    registry = kopf.OperatorRegistry()
    for kind in (*routing.KINDS, *routing.CHILDREN, *((PROBE,) if with_probe else ())):
        _watch(registry, kind, told)

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
    settings.watching.chunk_size = 500
    settings.queueing.error_delays = (1, 1, 2, 3, 5, 8, 13, 21, 34, 60)
    settings.posting.enabled = False
    settings.scanning.disabled = is_namespaced
    for kind in (*routing.CHILDREN, PROBE):
        resource = api_paths.RESOURCES[kind]
        group, _, version = resource.api_version.rpartition("/")
        settings.watching.label_selectors[group, version, resource.plural] = CHILD_SELECTOR
    return settings


async def watch(
    registry: kopf.OperatorRegistry, *, namespaces: tuple[str, ...], stop: threading.Event
) -> None:
    """Watch until `stop` is set; all of the cluster when no namespace is named.

    In a thread with an event loop of its own: kopf takes over the signals of the main thread, and
    when it stops it cancels every task of its loop, ours too. Cancelling this leaves the thread to
    its `stop`.

    Raises:
        Exception: Whatever ended the watches.
    """
    await asyncio.to_thread(_watch_until, registry, namespaces, stop)


def _watch_until(
    registry: kopf.OperatorRegistry, namespaces: tuple[str, ...], stop: threading.Event
) -> None:
    asyncio.run(
        kopf.operator(
            registry=registry,
            settings=build_settings(is_namespaced=bool(namespaces)),
            # Without one kopf asks for the user's name, which an arbitrary UID does not have.
            identity=cast("Any", labels.MANAGER_CHILDREN),
            standalone=True,
            clusterwide=not namespaces,
            namespaces=namespaces,
            stop_flag=stop,
        )
    )


def _watch(registry: kopf.OperatorRegistry, kind: str, told: Told) -> None:
    resource = api_paths.RESOURCES[kind]
    group, _, version = resource.api_version.rpartition("/")

    async def handle(event: Any, **_: Any) -> None:
        told(kind, event["object"], event["type"] == "DELETED")

    kopf.on.event(group, version, resource.plural, registry=registry, id=kind.lower())(handle)


def _connection_info(login: Login) -> kopf.ConnectionInfo:
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
