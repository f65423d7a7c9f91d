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
from kais_operator.manager.leader_session import Office, Term

logger = logging.getLogger(__name__)


class Election(Protocol):
    """The Lease, as `adapters.lease.Election` holds it."""

    async def stand(self) -> None:
        """Return as soon as we lead."""

    def hold(self) -> Coroutine[None, None, None]:
        """Renew until the Lease is lost, then return."""

    async def release(self) -> None:
        """Give the Lease up, if it is ours."""


class Lifecycle:
    """Runs terms; `problem` is what readiness asks."""

    def __init__(self, election: Election, office: Office) -> None:
        self._election = election
        self._office = office
        self._term: Term | None = None
        self.stop = asyncio.Event()
        office.metrics.watch_queue(self.depth, self.queue_age_s)
        for kind in (*watch_targets.KINDS, *watch_targets.CHILDREN):
            office.metrics.watch_kind(kind, self.age_s(kind))

    def problem(self) -> str | None:
        """Say why the operator is not ready: standby is ready, a leader with stale watches not."""
        return None if self._term is None else self._term.problem()

    def depth(self) -> float:
        """How many keys wait; 0 in standby."""
        return 0.0 if self._term is None else float(self._term.queue.depth)

    def queue_age_s(self) -> float:
        """How long the key that is due longest waits; 0 in standby."""
        return 0.0 if self._term is None else self._term.queue.age_s

    def age_s(self, kind: str) -> Callable[[], float]:
        """Give the function that says how old the last event of a kind is; -1 without one."""
        return lambda: -1.0 if self._term is None else self._term.freshness.age_s(kind)

    async def run(self) -> None:
        """Stand and lead in turns until `stop` is set.

        Raises:
            Exception: Whatever ended a term on its own; the Lease is released first.
        """
        while not self.stop.is_set():
            if not await self._won():
                return
            term = self._term = Term(self._office)
            try:
                await term.run(self._election.hold(), self.stop)
            finally:
                self._term = None
                await self._election.release()
                await term.close()

    def stop_on_signals(self) -> None:
        """Have SIGTERM and SIGINT set `stop`."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop.set)

    async def _won(self) -> bool:
        standing = asyncio.create_task(self._election.stand())
        stopping = asyncio.create_task(self.stop.wait())
        try:
            await asyncio.wait([standing, stopping], return_when=asyncio.FIRST_COMPLETED)
            if standing.done():
                standing.result()
            return standing.done() and not self.stop.is_set()
        finally:
            for task in (standing, stopping):
                task.cancel()
            await asyncio.gather(standing, stopping, return_exceptions=True)
            if self.stop.is_set():
                await self._election.release()
