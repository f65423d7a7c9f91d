"""What runs while this process holds the Lease: watches, queue, knowledge sync, heartbeat.

    watch event, list -> Cache, WatchHealth, ReferenceIndex -> reconcile_requests -> queue
    KnowledgeSync -> changed statistics, another store -----------------------------> queue
    queue -> Reconciler

All of it is created or cleared for each session, so that no state of an earlier one is left.

On SIGTERM the session drains: running reconciles, and the Events that wait for the end of a
backlog, get `DRAIN_TIMEOUT_S` and are then cancelled. The Lease is released next, because another
operator waits for it, and the watches close last. A session whose Lease is lost writes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass

from kais import labels, names
from kais_operator import errors
from kais_operator.controllers.base import Controller
from kais_operator.informer import event_handler, watch_targets
from kais_operator.informer.cache import Cache
from kais_operator.informer.child_watches import ChildWatches
from kais_operator.informer.list_client import ListClient
from kais_operator.informer.relist import ABSENT_PERIOD_S, Relister
from kais_operator.informer.watch_client import WatchClient
from kais_operator.informer.watch_health import WatchHealth
from kais_operator.informer.watch_heartbeat import LEASE, WatchHeartbeat
from kais_operator.knowledge.sync_loop import KnowledgeSync
from kais_operator.knowledge.sync_state import KnowledgeSyncState
from kais_operator.kubernetes.watch_credentials import Credentials
from kais_operator.manager import kopf_watches, reconcile_requests
from kais_operator.manager.metrics import Metrics
from kais_operator.manager.predicates import EventEnqueuer, OwnWriteFilter
from kais_operator.manager.reconciler import Reconciler
from kais_operator.manager.reference_index import ReferenceIndex
from kais_operator.manager.workqueue import WorkQueue
from kais_operator.planning.plan import Body, ObjectRef
from kais_operator.ports import World

logger = logging.getLogger(__name__)

DRAIN_TIMEOUT_S = 1.5
"""Reconciles that still run after this time are cancelled: the next leader waits for the Lease and
completes them."""
LISTS_TIMEOUT_S = 20.0
"""The first reconcile waits this long for the first lists; a kind without one is read from the API
server, object by object."""
WATCHES_TIMEOUT_S = 5.0
"""The thread of the watches may take this long to end; its events are ignored meanwhile."""
_SPREAD_S = 2.0
"""Repeated registrations are spread over this time."""
_REGISTERED_KINDS = ("Cell", "Mission", "KnowledgeScope", "BlueprintInstance")
"""Kinds whose reconciles register something at the knowledge service."""


@dataclass(frozen=True)
class ManagerDependencies:
    """The dependencies of every session, created once per process."""

    world: World
    sync_state: KnowledgeSyncState
    list_client: ListClient
    cache: Cache
    controllers: Mapping[str, Controller]
    metrics: Metrics
    heartbeat: WatchHeartbeat
    login: Callable[[], Awaitable[Credentials]]
    watch_client: WatchClient


class LeaderSession:
    """One period as the leader: `run` it once, release the Lease, then `close` it."""

    def __init__(self, dependencies: ManagerDependencies) -> None:
        world = dependencies.world
        self._dependencies = dependencies
        self._namespaces = world.placement.watched_namespaces
        self._operator_namespace = world.placement.operator_namespace
        self._targets = tuple(
            watch_targets.list_targets(
                self._namespaces, operator_namespace=self._operator_namespace
            )
        )
        self._reference_index = ReferenceIndex()
        self._realms: set[str] = set()
        self.watch_health = WatchHealth(
            world.clock,
            watches=[(target.kind, target.namespace) for target in self._targets],
            namespaces=self._namespaces,
            operator_namespace=self._operator_namespace,
            on_absent_change=lambda: self._watch_control.set_scope(self._watch_scope()),
        )
        self._watch_control = kopf_watches.WatchControl(self._watch_scope())
        self._pending_events: deque[tuple[str, Body, bool]] = deque()
        self._is_wakeup_scheduled = False
        self._loop: asyncio.AbstractEventLoop
        self._watch_task: asyncio.Task[None] | None = None
        self._event_handler = event_handler.EventHandler(
            dependencies.cache, self.watch_health, self.on_object_change
        )
        own_writes = OwnWriteFilter()
        self._reconciler = Reconciler(
            world,
            dependencies.controllers,
            own_writes,
            requeue=lambda key, delay_s: self.queue.add(key, delay_s=delay_s),
            backlog_age_s=lambda: self.queue.backlog_age_s,
        )
        world.agents.on_end(self._requeue)
        self._enqueuer = EventEnqueuer(
            own_writes, lambda key, after_s: self.queue.add(key, delay_s=after_s)
        )
        self.queue: WorkQueue[ObjectRef] = WorkQueue(
            self._reconcile,
            monotonic=world.clock.monotonic,
            jitter=random.random,
            observer=dependencies.metrics.record_reconcile,
            priority_delay_s=lambda key, delay_s: reconcile_requests.priority_delay_s(
                key, delay_s, self._reference_index
            ),
        )

    def problem(self) -> str | None:
        """Return why this leader is not ready; None if it is."""
        return self.watch_health.problem()

    async def run(self, lease_lost: Coroutine[None, None, None], stop: asyncio.Event) -> None:
        """Lead until the Lease is lost, which cancels everything, or until `stop`, which drains.

        After it returns, nothing is written; the watches may still be ending.

        Raises:
            Exception: The error that ended the queue or another task.
        """
        self._dependencies.cache.clear()
        self._dependencies.world.write_refusals.clear()
        self._loop = asyncio.get_running_loop()
        self._watch_task = asyncio.create_task(self._watch())
        tasks = [asyncio.create_task(coroutine) for coroutine in self._background_tasks()]
        end_tasks = [asyncio.create_task(lease_lost), asyncio.create_task(stop.wait())]
        try:
            await asyncio.wait(
                [self._watch_task, *tasks, *end_tasks], return_when=asyncio.FIRST_COMPLETED
            )
            self._watch_control.stop()
            if stop.is_set() and not end_tasks[0].done():
                await self._drain(tasks[0])
        finally:
            self._watch_control.stop()
            for task in (*tasks, *end_tasks):
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            self._dependencies.world.containers.end_all()
            self._dependencies.world.agents.end_all()
            await asyncio.gather(*end_tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def close(self) -> None:
        """Wait for the thread of the watches, for at most `WATCHES_TIMEOUT_S`.

        Raises:
            Exception: The error that ended the watches.
        """
        if self._watch_task is None:
            return
        if not self.watch_health.is_listed:
            self._watch_task.cancel()
        await asyncio.wait([self._watch_task], timeout=WATCHES_TIMEOUT_S)
        if self._watch_task.done() and not self._watch_task.cancelled():
            self._watch_task.result()

    async def _watch(self) -> None:
        """Watch once all kinds could be listed: kopf stops if it may not list one of them."""
        await self.watch_health.wait_listed()
        await kopf_watches.watch(
            self._watch_control, self._on_event_in_thread, self._dependencies.login
        )

    def _watch_scope(self) -> kopf_watches.WatchScope:
        """Return what kopf has to watch now."""
        return kopf_watches.WatchScope(self._present_namespaces(), self._operator_namespace)

    def _present_namespaces(self) -> tuple[str, ...]:
        """Return the named namespaces that are not absent; empty for all of the cluster."""
        absent = self.watch_health.absent
        return tuple(namespace for namespace in self._namespaces if namespace not in absent)

    def _on_event_in_thread(self, kind: str, body: Body, is_deleted: bool) -> None:
        """Hand an event over to the loop, which is woken once for a batch of events."""
        if not is_deleted and self._event_handler.is_up_to_date(kind, body):
            return
        self._pending_events.append((kind, body, is_deleted))
        if not self._is_wakeup_scheduled and not self._watch_control.is_stopped:
            self._is_wakeup_scheduled = True
            self._loop.call_soon_threadsafe(self._process_pending_events)

    def _on_child_event(self, kind: str, body: Body, is_deleted: bool) -> None:
        """Process an event in its own callback, like the events from the thread."""
        if is_deleted or not self._event_handler.is_up_to_date(kind, body):
            self._loop.call_soon(self._on_watch_event, kind, body, is_deleted)

    def _process_pending_events(self) -> None:
        """Process each event in its own callback, so that an error affects that event only."""
        self._is_wakeup_scheduled = False
        while self._pending_events:
            self._loop.call_soon(self._on_watch_event, *self._pending_events.popleft())

    def _on_watch_event(self, kind: str, body: Body, is_deleted: bool) -> None:
        if not self._watch_control.is_stopped:
            self._event_handler.on_watch_event(kind, body, is_deleted=is_deleted)

    def _background_tasks(self) -> list[Coroutine[None, None, None]]:
        """Return what runs during a session; the queue comes first."""
        dependencies = self._dependencies
        knowledge_sync = KnowledgeSync(
            dependencies.world.knowledge,
            dependencies.sync_state,
            dependencies.world.clock,
            on_stats_change=self._on_stats_change,
            repeat_registrations=self._repeat_registrations,
            on_unavailable=self._requeue_scopes,
        )
        return [
            self._run_queue(),
            Relister(
                dependencies.list_client,
                dependencies.cache,
                self._event_handler,
                self.watch_health,
            ).run(self._targets),
            ChildWatches(
                dependencies.watch_client,
                self._on_child_event,
                self._event_handler.on_unreadable,
                self.watch_health,
            ).run(
                tuple(
                    watch_targets.child_watches(
                        self._namespaces, operator_namespace=self._operator_namespace
                    )
                )
            ),
            knowledge_sync.run(),
            self.watch_health.run(dependencies.heartbeat.write),
        ]

    async def _run_queue(self) -> None:
        """Run the queue once the cache is filled; keys wait until then."""
        await self.watch_health.wait_listed(timeout_s=LISTS_TIMEOUT_S)
        await self.queue.run()

    async def _reconcile(self, key: ObjectRef) -> float | None:
        """Reconcile a key; one of an absent namespace, where every call would fail, waits."""
        namespace = key.name if key.kind == reconcile_requests.REALM else key.namespace
        if self.watch_health.is_absent(namespace):
            return ABSENT_PERIOD_S
        with self._enqueuer.reconciling(key):
            return await self._reconciler(key)

    def _requeue(self, key: ObjectRef) -> None:
        self.queue.add(key)

    async def _drain(self, queue_task: asyncio.Task[None]) -> None:
        """Start no more reconciles, wait for the running ones, and write the Events that wait."""
        logger.info("stopping: waiting for running reconciles")
        self.queue.stop()
        events_task = asyncio.create_task(self._reconciler.write_held_events())
        await asyncio.wait([queue_task, events_task], timeout=DRAIN_TIMEOUT_S)
        if events_task.cancel():
            await asyncio.gather(events_task, return_exceptions=True)
            logger.warning("stopping: some Events were not written in time")
        else:
            events_task.result()

    # What queues keys

    def on_object_change(self, kind: str, body: Body, is_deleted: bool) -> None:
        """Queue the keys that a changed object concerns."""
        if kind == watch_targets.HEARTBEAT_KIND:
            if body["metadata"]["name"] == LEASE:
                self.watch_health.record_heartbeat()
            return
        ref = reconcile_requests.ref_of(kind, body)
        if kind in watch_targets.KINDS:
            self._reference_index.update(ref, body, is_deleted=is_deleted)
        version = None if is_deleted else body["metadata"]["resourceVersion"]
        for request in reconcile_requests.requests_for_event(
            kind,
            body,
            is_deleted=is_deleted,
            reference_index=self._reference_index,
            operator_namespace=self._operator_namespace,
        ):
            self._enqueuer.enqueue(
                request.ref,
                source=ref,
                version=version,
                delay_s=self._delay_s(request),
                creator=reconcile_requests.owning_instance(ref, body)
                if request.ref == ref
                else None,
            )

    def _delay_s(self, request: reconcile_requests.ReconcileRequest) -> float:
        """Return the delay of a request; a realm is reconciled at once when it is new."""
        if request.ref.kind != reconcile_requests.REALM or request.ref.name in self._realms:
            return request.delay_s
        self._realms.add(request.ref.name)
        return 0.0

    async def _on_stats_change(self, blueprints: list[tuple[str, str]], scopes: list[str]) -> None:
        for namespace, name in blueprints:
            self.queue.add(ObjectRef("Blueprint", namespace, name))
            await self._enqueue_revisions(namespace, name)
        if not scopes:
            return
        changed = set(scopes)
        for scope in await self._list_kind("KnowledgeScope"):
            if (scope.get("status") or {}).get("path") in changed:
                self.queue.add(reconcile_requests.ref_of("KnowledgeScope", scope))

    async def _enqueue_revisions(self, namespace: str, blueprint: str) -> None:
        """Queue a Blueprint's revisions, which show their share of its statistics."""
        selector = f"{labels.BLUEPRINT}={names.label_value(blueprint)}"
        try:
            revisions = await self._dependencies.world.cluster.list(
                "BlueprintRevision", namespace, labels=selector
            )
        except errors.ClusterError as exc:
            logger.log(
                errors.log_level(exc),
                "cannot list the revisions of %s/%s: %s",
                namespace,
                blueprint,
                exc,
            )
            return
        for body in revisions:
            self.queue.add(reconcile_requests.ref_of("BlueprintRevision", body))

    async def _repeat_registrations(self) -> None:
        """Queue all objects with registrations at the knowledge service, over `_SPREAD_S`."""
        for kind in _REGISTERED_KINDS:
            for body in await self._list_kind(kind):
                ref = reconcile_requests.ref_of(kind, body)
                self.queue.add(ref, delay_s=random.random() * _SPREAD_S)  # noqa: S311 (a spread)
                realm = ObjectRef(reconcile_requests.REALM, "", ref.namespace)
                self.queue.add(realm, delay_s=_SPREAD_S)

    async def _requeue_scopes(self) -> None:
        """Queue the KnowledgeScopes: their conditions report an unavailable service."""
        for body in await self._list_kind("KnowledgeScope"):
            ref = reconcile_requests.ref_of("KnowledgeScope", body)
            self.queue.add(ref, delay_s=random.random() * _SPREAD_S)  # noqa: S311 (a spread)

    async def _list_kind(self, kind: str) -> list[Body]:
        """List a kind in all namespaces that can be listed."""
        bodies: list[Body] = []
        for namespace in self._present_namespaces() or (None,):
            try:
                bodies.extend(await self._dependencies.world.cluster.list(kind, namespace))
            except errors.ClusterError as exc:
                logger.log(
                    errors.log_level(exc),
                    "cannot list %s in %s: %s",
                    kind,
                    namespace or "all namespaces",
                    exc,
                )
        return bodies
