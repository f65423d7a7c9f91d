"""One term of leadership: watches, queue, store watch and probe, from winning the Lease to its end.

    watch event, list -> cache, Freshness, References -> routing -> queue -> Passes
    store watch -> changed statistics, another store ---^

Everything here is made anew for each term, so that nothing of a former one is left.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass

from kais import labels, names
from kais_operator import errors
from kais_operator.controllers.base import Controller
from kais_operator.informer import event_intake, watch_targets
from kais_operator.informer.cache import Cache
from kais_operator.informer.list_client import Listing
from kais_operator.informer.relist import Sweeper
from kais_operator.informer.watch_health import Freshness
from kais_operator.informer.watch_heartbeat import LEASE, WatchProbe
from kais_operator.knowledge.sync_loop import StoreWatch
from kais_operator.knowledge.sync_state import StoreMemory
from kais_operator.kubernetes.credentials import Login
from kais_operator.manager import event_mapping, watches
from kais_operator.manager.metrics import Metrics
from kais_operator.manager.predicates import Echoes, Triggers
from kais_operator.manager.reconciler import Passes
from kais_operator.manager.reference_index import References
from kais_operator.manager.workqueue import WorkQueue
from kais_operator.planning.plan import Body, ObjectRef
from kais_operator.ports import World

logger = logging.getLogger(__name__)

DRAIN_S = 1.5
"""After this long a pass that runs at the end is cancelled: a successor waits for the Lease, and
what a cancelled pass left undone is its to do."""
LISTS_S = 20.0
"""The first pass waits this long for the first lists; without one of them the API server is asked
for each object of that kind."""
WATCHES_S = 5.0
"""The watches' thread may take this long to end; what it still tells is not heard any more."""
_SPREAD_S = 2.0
"""First events of a term and repeats are spread over this long."""
_TOLD_KINDS = ("Cell", "Mission", "KnowledgeScope", "BlueprintInstance")
"""Kinds whose passes tell the store something."""


@dataclass(frozen=True)
class Office:
    """What every term works with."""

    world: World
    memory: StoreMemory
    listing: Listing
    cache: Cache
    reconcilers: Mapping[str, Controller]
    metrics: Metrics
    probe: WatchProbe
    login: Callable[[], Awaitable[Login]]


class Term:
    """One leadership; `run` it once, give the Lease up, then `close` it."""

    def __init__(self, office: Office) -> None:
        world = office.world
        self._office = office
        self._namespaces = world.placement.watched_namespaces
        self._operator_namespace = world.placement.operator_namespace
        self._subjects = tuple(
            watch_targets.subjects(self._namespaces, operator_namespace=self._operator_namespace)
        )
        self._references = References()
        self._realms: set[str] = set()
        self.freshness = Freshness(
            world.clock, watches=[(one.kind, one.namespace) for one in self._subjects]
        )
        self._stopping = threading.Event()
        self._unheard: deque[tuple[str, Body, bool]] = deque()
        self._is_called = False
        self._loop: asyncio.AbstractEventLoop
        self._watching: asyncio.Task[None] | None = None
        self._ear = event_intake.Ear(office.cache, self.freshness, self.told)
        echoes = Echoes()
        self._passes = Passes(world, office.reconcilers, echoes, look_again=self._look_again)
        self._triggers = Triggers(echoes, lambda key, after_s: self.queue.add(key, after=after_s))
        self.queue: WorkQueue[ObjectRef] = WorkQueue(
            self._look,
            monotonic=world.clock.monotonic,
            jitter=random.random,
            observer=office.metrics.reconciled,
            patience_s=event_mapping.patience_s,
        )

    def problem(self) -> str | None:
        """Say why this leader is not ready; None when it is."""
        return self.freshness.problem()

    async def run(self, lost: Coroutine[None, None, None], stop: asyncio.Event) -> None:
        """Lead until the Lease is lost, which cancels all at once, or `stop`, which drains.

        Nothing is written any more when it returns; the watches may still be ending.

        Raises:
            Exception: Whatever ended the queue or another part on its own.
        """
        self._office.cache.clear()
        self._loop = asyncio.get_running_loop()
        self._watching = asyncio.create_task(self._watch())
        parts = [asyncio.create_task(part) for part in self._parts()]
        ends = [asyncio.create_task(lost), asyncio.create_task(stop.wait())]
        try:
            await asyncio.wait([self._watching, *parts, *ends], return_when=asyncio.FIRST_COMPLETED)
            self._stopping.set()
            if stop.is_set() and not ends[0].done():
                await self._drain(parts[0])
        finally:
            self._stopping.set()
            for task in (*parts, *ends):
                task.cancel()
            results = await asyncio.gather(*parts, return_exceptions=True)
            self._office.world.containers.end_all()
            await asyncio.gather(*ends, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def close(self) -> None:
        """Wait for the watches' thread, a bounded time.

        Raises:
            Exception: Whatever ended the watches.
        """
        if self._watching is None:
            return
        if not self.freshness.is_listed:
            self._watching.cancel()
        await asyncio.wait([self._watching], timeout=WATCHES_S)
        if self._watching.done() and not self._watching.cancelled():
            self._watching.result()

    async def _watch(self) -> None:
        """Watch once all can be listed: kopf ends with the first kind that it is refused."""
        await self.freshness.wait_listed()
        scope = watches.Scope(self._namespaces, self._operator_namespace)
        await watches.watch(
            scope, self._happened_in_thread, self._office.login, stop=self._stopping
        )

    def _happened_in_thread(self, kind: str, body: Body, is_gone: bool) -> None:
        """Hand news over; the loop is woken once for all that come before it wakes."""
        if not is_gone and self._ear.has_heard(kind, body):
            return
        self._unheard.append((kind, body, is_gone))
        if not self._is_called and not self._stopping.is_set():
            self._is_called = True
            self._loop.call_soon_threadsafe(self._hear)

    def _hear(self) -> None:
        """Have each event heard on its own: one that fails keeps none of the others back."""
        self._is_called = False
        while self._unheard:
            self._loop.call_soon(self._happened, *self._unheard.popleft())

    def _happened(self, kind: str, body: Body, is_gone: bool) -> None:
        if not self._stopping.is_set():
            self._ear.happened(kind, body, is_gone=is_gone)

    def _parts(self) -> list[Coroutine[None, None, None]]:
        """Give what runs in a term; the queue first."""
        office = self._office
        store_watch = StoreWatch(
            office.world.knowledge,
            office.memory,
            office.world.clock,
            stats_changed=self._stats_changed,
            tell_again=self._tell_again,
            went_away=self._store_went_away,
        )
        return [
            self._work(),
            Sweeper(office.listing, office.cache, self._ear).run(self._subjects),
            store_watch.run(),
            self.freshness.run(office.probe.touch),
        ]

    async def _work(self) -> None:
        """Run the queue once memory is whole; its keys wait until then."""
        await self.freshness.wait_listed(within_s=LISTS_S)
        await self.queue.run()

    async def _look(self, key: ObjectRef) -> float | None:
        with self._triggers.looking(key):
            return await self._passes(key)

    def _look_again(self, key: ObjectRef) -> None:
        self.queue.add(key)

    async def _drain(self, working: asyncio.Task[None]) -> None:
        """Take no more keys, and let what runs end."""
        logger.info("stopping: finishing what runs")
        self.queue.stop()
        await asyncio.wait([working], timeout=DRAIN_S)

    # Triggers

    def told(self, kind: str, body: Body, is_gone: bool) -> None:
        """Turn what was heard of an object into keys."""
        if kind == watch_targets.PROBE:
            if body["metadata"]["name"] == LEASE:
                self.freshness.note_echo()
            return
        ref = event_mapping.ref_of(kind, body)
        if kind in watch_targets.KINDS:
            self._references.note(ref, body, is_gone=is_gone)
        version = None if is_gone else body["metadata"]["resourceVersion"]
        for route in event_mapping.routes(
            kind,
            body,
            is_gone=is_gone,
            references=self._references,
            operator_namespace=self._operator_namespace,
        ):
            self._triggers.tell(
                route.ref,
                of=ref,
                version=version,
                after_s=self._delay(route),
                made_by=event_mapping.maker(ref, body) if route.ref == ref else None,
            )

    def _delay(self, route: event_mapping.Route) -> float:
        """Look after a realm at once when it is new."""
        if route.ref.kind != event_mapping.REALM or route.ref.name in self._realms:
            return route.after_s
        self._realms.add(route.ref.name)
        return 0.0

    async def _stats_changed(self, blueprints: list[tuple[str, str]], scopes: list[str]) -> None:
        for namespace, name in blueprints:
            self.queue.add(ObjectRef("Blueprint", namespace, name))
            await self._add_revisions(namespace, name)
        if not scopes:
            return
        changed = set(scopes)
        for scope in await self._listed("KnowledgeScope"):
            if (scope.get("status") or {}).get("path") in changed:
                self.queue.add(event_mapping.ref_of("KnowledgeScope", scope))

    async def _add_revisions(self, namespace: str, blueprint: str) -> None:
        """Look at a Blueprint's revisions, which show their share of its statistics."""
        selector = f"{labels.BLUEPRINT}={names.label_value(blueprint)}"
        try:
            found = await self._office.world.cluster.list(
                "BlueprintRevision", namespace, labels=selector
            )
        except errors.ClusterError as exc:
            logger.log(
                errors.log_level(exc),
                "revisions of %s/%s not listed: %s",
                namespace,
                blueprint,
                exc,
            )
            return
        for body in found:
            self.queue.add(event_mapping.ref_of("BlueprintRevision", body))

    async def _tell_again(self) -> None:
        """Look at everything that tells the store something, spread over a moment."""
        for kind in _TOLD_KINDS:
            for body in await self._listed(kind):
                ref = event_mapping.ref_of(kind, body)
                self.queue.add(ref, after=random.random() * _SPREAD_S)  # noqa: S311 (a spread)
                realm = ObjectRef(event_mapping.REALM, "", ref.namespace)
                self.queue.add(realm, after=_SPREAD_S)

    async def _store_went_away(self) -> None:
        """Look at the scopes, which say whether the store answers; others meet it when they ask."""
        for body in await self._listed("KnowledgeScope"):
            ref = event_mapping.ref_of("KnowledgeScope", body)
            self.queue.add(ref, after=random.random() * _SPREAD_S)  # noqa: S311 (a spread)

    async def _listed(self, kind: str) -> list[Body]:
        found: list[Body] = []
        try:
            for namespace in self._namespaces or (None,):
                found.extend(await self._office.world.cluster.list(kind, namespace))
        except errors.ClusterError as exc:
            logger.log(errors.log_level(exc), "%s not listed: %s", kind, exc)
        return found
