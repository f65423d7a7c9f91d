"""What is watched, and that all of it is heard: by the cache first, then by who makes keys of it.

One watch for each kind (and namespace, in namespace mode): the seven kinds whole, children by our
managed-by label, and the Lease of the watch probe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from kais import labels
from kais_operator.adapters.cache import Cache
from kais_operator.adapters.connection import Connection
from kais_operator.adapters.watching import KindWatch, Subject
from kais_operator.decide.plan import Body
from kais_operator.handlers import routing
from kais_operator.handlers.freshness import Freshness

CHILD_SELECTOR = f"{labels.MANAGED_BY}={labels.MANAGER}"
PROBE = "Lease"
"""The watch probe's kind; its events go the same way as all others."""
LISTS = 3
"""So many kinds are listed at a time: a page of objects takes some MiB until it is read."""
Told = Callable[[str, Body, bool], None]
"""Takes kind, body and whether the object is gone."""


def subjects(namespaces: tuple[str, ...], *, operator_namespace: str) -> Iterator[Subject]:
    """Name what is watched; all of the cluster when no namespace is named."""
    for namespace in namespaces or (None,):
        for kind in routing.KINDS:
            yield Subject(kind, namespace)
        for kind in routing.CHILDREN:
            yield Subject(kind, namespace, CHILD_SELECTOR)
    if namespaces and operator_namespace not in namespaces:
        yield Subject("ConfigMap", operator_namespace, CHILD_SELECTOR)
    yield Subject(PROBE, operator_namespace, CHILD_SELECTOR)


class Ear:
    """Hears every watch; what `adapters.watching` tells."""

    def __init__(self, cache: Cache, freshness: Freshness, told: Told) -> None:
        self._cache = cache
        self._freshness = freshness
        self._told = told

    def listed(self, kind: str, body: Body) -> None:
        """Tell of an object whose state no watch event told before."""
        is_known = self._cache.is_told(body)
        if kind != PROBE:
            self._cache.put(body, is_told=True)
        if not is_known:
            self._told(kind, body, False)

    def list_ended(self, kind: str, namespace: str | None, *, seen: set[str], version: str) -> None:
        """Tell of what went while nobody watched; from now on memory answers for the kind."""
        for body in self._cache.listed(kind, namespace, seen=seen, version=version):
            self._told(kind, body, True)
        self._freshness.note_listed(kind, namespace)

    def happened(self, kind: str, body: Body, *, is_gone: bool) -> None:
        """Take in an event, then tell of it."""
        if kind != PROBE:
            if is_gone:
                self._cache.gone(body)
            else:
                self._cache.put(body, is_told=True)
        self._freshness.note(kind)
        self._told(kind, body, is_gone)

    def heard(self, kind: str, namespace: str | None) -> None:
        """Note that a watch is alive."""
        self._freshness.note_alive(kind, namespace)


async def watch(connection: Connection, wanted: tuple[Subject, ...], ear: Ear) -> None:
    """Watch until it is cancelled.

    Raises:
        Exception: Whatever ended a watch; none of them ends by itself.
    """
    lists = asyncio.Semaphore(LISTS)
    async with asyncio.TaskGroup() as group:
        for subject in wanted:
            group.create_task(KindWatch(connection, subject, ear, lists=lists).run())
