"""Acquire the Lease and lead, again and again, until the process is asked to stop.

A lost Lease ends the leader session, not the process. `leader_tasks` says in which order a
session ends.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine
from typing import Protocol

from kais_operator.informer import watch_targets
from kais_operator.manager.leader_tasks import LeaderSession, ManagerDependencies

logger = logging.getLogger(__name__)


class LeaderElection(Protocol):
    """Leader election; implemented by `lease_lock.LeaseLock`."""

    async def acquire(self) -> None:
        """Return as soon as this process is the leader."""

    def renew_until_lost(self) -> Coroutine[None, None, None]:
        """Renew the Lease; return when it is lost."""

    async def release(self) -> None:
        """Release the Lease if this process holds it."""


class ElectionLoop:
    """Runs leader sessions one after another; readiness reads `problem`."""

    def __init__(self, election: LeaderElection, dependencies: ManagerDependencies) -> None:
        self._election = election
        self._dependencies = dependencies
        self._session: LeaderSession | None = None
        self.stop = asyncio.Event()
        dependencies.metrics.export_queue(self.depth, self.queue_age_s)
        kinds = (*watch_targets.KINDS, *watch_targets.CHILD_KINDS, watch_targets.HEARTBEAT_KIND)
        for kind in kinds:
            dependencies.metrics.export_watch_age(kind, self.event_age_s(kind))

    def problem(self) -> str | None:
        """Return why the operator is not ready, None if it is; a standby is ready."""
        return None if self._session is None else self._session.problem()

    def depth(self) -> float:
        """Return the number of queued keys; 0 in standby."""
        return 0.0 if self._session is None else float(self._session.queue.depth)

    def queue_age_s(self) -> float:
        """Return how long the oldest due key has waited; 0 in standby."""
        return 0.0 if self._session is None else self._session.queue.oldest_age_s

    def event_age_s(self, kind: str) -> Callable[[], float]:
        """Return a function for the age of a kind's last event in seconds; -1 if there is none."""
        return lambda: (
            -1.0 if self._session is None else self._session.watch_health.event_age_s(kind)
        )

    async def run(self) -> None:
        """Acquire the Lease and lead, again and again, until `stop` is set.

        Raises:
            Exception: The error that ended a session; the Lease is released first.
        """
        while not self.stop.is_set():
            if not await self._acquire_or_stop():
                return
            session = self._session = LeaderSession(self._dependencies)
            try:
                await session.run(self._election.renew_until_lost(), self.stop)
            finally:
                self._session = None
                await self._election.release()
                await session.close()

    def stop_on_signals(self) -> None:
        """Set `stop` on SIGTERM and SIGINT."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop.set)

    async def _acquire_or_stop(self) -> bool:
        acquisition = asyncio.create_task(self._election.acquire())
        stopping = asyncio.create_task(self.stop.wait())
        try:
            await asyncio.wait([acquisition, stopping], return_when=asyncio.FIRST_COMPLETED)
            if acquisition.done():
                acquisition.result()
            return acquisition.done() and not self.stop.is_set()
        finally:
            for task in (acquisition, stopping):
                task.cancel()
            await asyncio.gather(acquisition, stopping, return_exceptions=True)
            if self.stop.is_set():
                await self._election.release()
