"""The life of the process: stand for election, lead, lose or stop, and stand again.

A lost Lease ends the term, not the process. SIGTERM drains the term and releases the Lease, before
anything else is closed: a successor waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine
from typing import Protocol

from kais_operator.informer import watch_targets
from kais_operator.manager.leader_session import LeaderSession, ManagerDependencies

logger = logging.getLogger(__name__)


class LeaderElection(Protocol):
    """The Lease, as `adapters.lease.Election` holds it."""

    async def acquire(self) -> None:
        """Return as soon as we lead."""

    def renew_until_lost(self) -> Coroutine[None, None, None]:
        """Renew until the Lease is lost, then return."""

    async def release(self) -> None:
        """Give the Lease up, if it is ours."""


class Lifecycle:
    """Runs terms; `problem` is what readiness asks."""

    def __init__(self, election: LeaderElection, dependencies: ManagerDependencies) -> None:
        self._election = election
        self._dependencies = dependencies
        self._session: LeaderSession | None = None
        self.stop = asyncio.Event()
        dependencies.metrics.export_queue(self.depth, self.queue_age_s)
        for kind in (*watch_targets.KINDS, *watch_targets.CHILD_KINDS):
            dependencies.metrics.export_watch_age(kind, self.event_age_s(kind))

    def problem(self) -> str | None:
        """Say why the operator is not ready: standby is ready, a leader with stale watches not."""
        return None if self._session is None else self._session.problem()

    def depth(self) -> float:
        """How many keys wait; 0 in standby."""
        return 0.0 if self._session is None else float(self._session.queue.depth)

    def queue_age_s(self) -> float:
        """How long the key that is due longest waits; 0 in standby."""
        return 0.0 if self._session is None else self._session.queue.oldest_age_s

    def event_age_s(self, kind: str) -> Callable[[], float]:
        """Give the function that says how old the last event of a kind is; -1 without one."""
        return lambda: (
            -1.0 if self._session is None else self._session.watch_health.event_age_s(kind)
        )

    async def run(self) -> None:
        """Stand and lead in turns until `stop` is set.

        Raises:
            Exception: Whatever ended a term on its own; the Lease is released first.
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
        """Have SIGTERM and SIGINT set `stop`."""
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
