"""Watches instances and their children in the main event loop, beside kopf's watches.

Most events are about them. For each, kopf would start a task and look for handlers and causes,
in a thread that competes with this loop. What a broken watch missed is found by the relists; see
`relist`. In an absent namespace the watches wait until a list succeeds there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from kais_operator import errors
from kais_operator.informer.failure_log import FailureLog
from kais_operator.informer.list_client import ObjectVersion, WatchTarget, version_of
from kais_operator.informer.watch_client import WatchClient, WatchEvent
from kais_operator.informer.watch_health import WatchHealth
from kais_operator.planning.plan import Body

logger = logging.getLogger(__name__)

_RETRY_RANGE_S = (0.5, 10.0)
"""The first and the longest delay before a watch that failed is opened again."""
_LOGGED_FORBIDDEN_COUNT = 10
"""With these delays, this takes a little longer than `relist.RELIST_PERIOD_S`: the lists show first
whether the namespace is absent."""
EventCallback = Callable[[str, Body, bool], None]
"""Takes kind, body, and whether the object was deleted."""
UnreadableCallback = Callable[[ObjectVersion], None]
"""Takes the version of an object that nests too deeply."""


class ChildWatches:
    """Watches every target; `run` it in a task."""

    def __init__(
        self,
        watch_client: WatchClient,
        on_event: EventCallback,
        on_unreadable: UnreadableCallback,
        watch_health: WatchHealth,
    ) -> None:
        self._watch_client = watch_client
        self._on_event = on_event
        self._on_unreadable = on_unreadable
        self._watch_health = watch_health
        self._failure_log = FailureLog(logger, watch_health)

    async def run(self, targets: Sequence[WatchTarget]) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for target in targets:
                group.create_task(self._watch_loop(target))

    async def _watch_loop(self, target: WatchTarget) -> None:
        """Watch again and again, from the version of the last event."""
        shortest_s, longest_s = _RETRY_RANGE_S
        version, retry_s = "", shortest_s
        while True:
            try:
                version = version or await self._watch_client.current_version(target)
                async for event in self._watch_client.events(target, version=version):
                    version, retry_s = event.version, shortest_s
                    self._failure_log.record_success(target)
                    self._deliver(target.kind, event)
                pause_s = shortest_s
            except errors.Expired:
                version, pause_s = "", shortest_s  # the relists find what changed meanwhile
            except errors.ClusterError as exc:
                self._failure_log.record_failure(
                    target, exc, f"watch of {target}", forbidden_count=_LOGGED_FORBIDDEN_COUNT
                )
                pause_s, retry_s = retry_s, min(retry_s * 2, longest_s)
            await asyncio.sleep(pause_s)
            await self._watch_health.wait_present(target.namespace)

    def _deliver(self, kind: str, event: WatchEvent) -> None:
        if not event.is_readable:
            self._on_unreadable(version_of(kind, event.body))
        elif not event.is_bookmark:
            self._on_event(kind, event.body, event.is_deleted)
