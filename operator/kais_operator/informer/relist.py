"""Corrects the cache where watches cannot: full lists at the start of a session, then relists.

    full list -> cache is complete -> relist -> relist ...
                                        |-> cached, not in the cluster: dropped, reported as deleted
                                        '-> newer in the cluster for a while: read, cached, reported

kopf does not report what was deleted while it was disconnected, and notices a silent watch only
after a minute. See docs/decisions/0022-cache-watches-and-relists.md.

Lists also show that a named namespace is absent. They are then repeated slowly; the first that
succeeds calls the others, and the watches.
"""

from __future__ import annotations

import asyncio
import logging
import random

from kais_operator import errors
from kais_operator.informer.cache import Cache
from kais_operator.informer.event_handler import EventHandler
from kais_operator.informer.failure_log import FailureLog
from kais_operator.informer.list_client import ListClient, ObjectVersion, WatchTarget
from kais_operator.informer.watch_health import WatchHealth
from kais_operator.planning.plan import Body

logger = logging.getLogger(__name__)

RELIST_PERIOD_S = 45.0
FIRST_RELIST_S = 5.0
"""The first relist closes the gap between our full list and the start of the watch."""
WATCH_GRACE_S = 5.0
"""A watch may be late by this; changes that it has not reported by then are read."""
ABSENT_PERIOD_S = 30.0
"""Lists and reconciles in an absent namespace are repeated after this time."""
MAX_CONCURRENT_LISTS = 2
"""A page of objects takes some MiB until it is processed."""
_RETRY_RANGE_S = (0.5, 10.0)
"""The first and the longest delay before a failed list is repeated."""
_LOGGED_FORBIDDEN_COUNT = 8
"""With the longest delay, this takes longer than `RELIST_PERIOD_S`: until then every kind is
relisted, which shows whether the namespace is absent."""
_FULL_LIST_THRESHOLD = 50
"""With more missed changes, the kind is listed in full instead of reading each object."""


class Relister:
    """Lists and relists every target; `run` it in a task."""

    def __init__(
        self,
        list_client: ListClient,
        cache: Cache,
        event_handler: EventHandler,
        watch_health: WatchHealth,
    ) -> None:
        self._list_client = list_client
        self._cache = cache
        self._event_handler = event_handler
        self._list_slots = asyncio.Semaphore(MAX_CONCURRENT_LISTS)
        self._watch_health = watch_health
        self._failure_log = FailureLog(logger, watch_health)

    async def run(self, targets: tuple[WatchTarget, ...]) -> None:
        """Keep the cache correct until cancelled."""
        async with asyncio.TaskGroup() as group:
            for target in targets:
                group.create_task(self._relist_loop(target))

    async def load(self, target: WatchTarget) -> None:
        """List a target in full; report every object, and those that are missing as deleted.

        Raises:
            ClusterError: The list failed; the objects of earlier pages have been reported.
        """
        uids: set[str] = set()
        version = ""
        async with self._list_slots:
            async for items, version in self._list_client.pages(target):  # noqa: B007 (the last counts)
                for item in items:
                    uids.add(self._take_in(target.kind, item))
        self._event_handler.on_list_end(target.kind, target.namespace, uids=uids, version=version)

    def _take_in(self, kind: str, item: Body | ObjectVersion) -> str:
        """Report an object of a list, and return its UID."""
        if isinstance(item, ObjectVersion):
            self._event_handler.on_unreadable(item)
            return item.uid
        self._event_handler.on_listed(kind, item)
        return str(item["metadata"]["uid"])

    async def verify(self, target: WatchTarget) -> None:
        """Compare the cache with the cluster by versions, and report what no watch reported.

        Raises:
            ClusterError: A list or a read failed.
        """
        async with self._list_slots:
            listed = await self._list_client.versions(target)
        uids = {change.uid for change in listed.objects}
        self._event_handler.on_list_end(
            target.kind, target.namespace, uids=uids, version=listed.version
        )
        missed = self._missed_changes(listed.objects)
        if not missed:
            return
        await asyncio.sleep(WATCH_GRACE_S)
        missed = self._missed_changes(missed)
        if len(missed) > _FULL_LIST_THRESHOLD:
            logger.warning("%s: the watches missed %d changes; relisted", target, len(missed))
            await self.load(target)
            return
        for change in missed:
            await self._refetch(change)

    def _missed_changes(self, versions: tuple[ObjectVersion, ...]) -> tuple[ObjectVersion, ...]:
        expected = (
            m
            for m in versions
            if self._cache.is_cacheable_child(m.ref, is_controlled=m.is_controlled)
        )
        return tuple(
            version
            for version in expected
            if not self._cache.has_version(version.ref, version.version)
            and not self._event_handler.is_unreadable(version)
        )

    async def _refetch(self, change: ObjectVersion) -> None:
        async with self._list_slots:
            try:
                body = await self._list_client.read(change.ref)
            except errors.TooDeep:
                self._event_handler.on_unreadable(change)
                return
        if body is not None and self._cache.is_watched(body) and not self._cache.is_confirmed(body):
            logger.warning("%s: no watch reported its change; read it", change.ref)
            self._event_handler.on_listed(change.ref.kind, body)

    async def _relist_loop(self, target: WatchTarget) -> None:
        shortest_s, longest_s = _RETRY_RANGE_S
        retry_s = shortest_s
        while not await self._try_list(target, is_first=True):
            await self._pause(target, retry_s)
            retry_s = min(retry_s * 2, longest_s)
        pause_s = FIRST_RELIST_S
        while True:
            await self._pause(target, pause_s)
            pause_s = RELIST_PERIOD_S if await self._try_list(target, is_first=False) else longest_s

    async def _pause(self, target: WatchTarget, pause_s: float) -> None:
        """Wait before the next list, in an absent namespace for longer, or until it is back."""
        if self._watch_health.is_absent(target.namespace):
            timeout_s = _with_jitter(ABSENT_PERIOD_S)
            await self._watch_health.wait_present(target.namespace, timeout_s=timeout_s)
        else:
            await asyncio.sleep(_with_jitter(pause_s))

    async def _try_list(self, target: WatchTarget, *, is_first: bool) -> bool:
        """List or relist; an error that repeats is logged once."""
        try:
            await (self.load(target) if is_first else self.verify(target))
        except errors.ClusterError as exc:
            if isinstance(exc, errors.Forbidden):
                self._watch_health.record_forbidden(target.kind, target.namespace)
            count = 2 if is_first else _LOGGED_FORBIDDEN_COUNT
            self._failure_log.record_failure(target, exc, str(target), forbidden_count=count)
            return False
        self._failure_log.record_success(target)
        return True


def _with_jitter(pause_s: float) -> float:
    """Shorten a delay a little, so that not all kinds are listed at the same time."""
    return pause_s * random.uniform(0.8, 1)  # noqa: S311 (a spread)
