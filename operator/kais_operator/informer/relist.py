"""Keeps memory right where watches cannot: first lists at the begin of a term, sweeps after them.

    first list -> memory answers -> sweep -> sweep ...
                                      |-> in memory, not in the cluster: dropped, told as a deletion
                                      '-> newer in the cluster for a while: read, put, told

kopf tells what happens; what went while it was cut it does not tell, and a silent watch it notices
after more than a minute. See docs/decisions/0022-memory-and-watches.md.
"""

from __future__ import annotations

import asyncio
import logging
import random

from kais_operator import errors
from kais_operator.informer.cache import Cache
from kais_operator.informer.event_intake import Ear
from kais_operator.informer.list_client import Listing, Mark, Subject

logger = logging.getLogger(__name__)

EVERY_S = 45.0
SOON_S = 5.0
"""The first sweep closes the gap between our first list and the begin of the watch."""
GRACE_S = 5.0
"""A watch may be late by this; then what it did not tell is asked for."""
AT_ONCE = 2
"""So many kinds are listed at a time: a page of objects takes some MiB until it is read."""
_AGAIN_S = (0.5, 10.0)
"""The first and the longest pause before what failed is tried again."""
_MANY = 50
"""From so many late objects on, the kind is listed anew instead of reading each."""


class Sweeper:
    """Lists and sweeps every subject; `run` it in a task."""

    def __init__(self, listing: Listing, cache: Cache, ear: Ear) -> None:
        self._listing = listing
        self._cache = cache
        self._ear = ear
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._said: dict[Subject, str] = {}

    async def run(self, wanted: tuple[Subject, ...]) -> None:
        """Keep memory right until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for subject in wanted:
                group.create_task(self._tend(subject))

    async def fill(self, subject: Subject) -> None:
        """Tell every object of a subject, and what is no longer among them.

        Raises:
            ClusterError: The list was refused or broke; what it gave so far is told.
        """
        seen: set[str] = set()
        version = ""
        async with self._turns:
            async for items, version in self._listing.pages(subject):  # noqa: B007 (the last counts)
                for item in items:
                    seen.add(item["metadata"]["uid"])
                    self._ear.listed(subject.kind, item)
        self._ear.list_ended(subject.kind, subject.namespace, seen=seen, version=version)

    async def sweep(self, subject: Subject) -> None:
        """Compare memory with the cluster, and tell what no watch told.

        Raises:
            ClusterError: A list or a read was refused, or broke.
        """
        async with self._turns:
            marks = await self._listing.marks(subject)
        seen = {mark.uid for mark in marks.found}
        self._ear.list_ended(subject.kind, subject.namespace, seen=seen, version=marks.version)
        late = self._untold(marks.found)
        if not late:
            return
        await asyncio.sleep(GRACE_S)
        late = self._untold(late)
        if len(late) > _MANY:
            logger.warning("%s: the watches missed %d changes; relisted", subject, len(late))
            await self.fill(subject)
            return
        for mark in late:
            await self._ask(mark)

    def _untold(self, marks: tuple[Mark, ...]) -> tuple[Mark, ...]:
        kept = (
            m for m in marks if self._cache.keeps_labelled(m.ref, is_controlled=m.is_controlled)
        )
        return tuple(mark for mark in kept if not self._cache.has_heard(mark.ref, mark.version))

    async def _ask(self, mark: Mark) -> None:
        async with self._turns:
            body = await self._listing.read(mark.ref)
        if body is not None and self._cache.tells_of(body) and not self._cache.is_told(body):
            logger.warning("%s: no watch told of its change; read", mark.ref)
            self._ear.listed(mark.ref.kind, body)

    async def _tend(self, subject: Subject) -> None:
        first, longest = _AGAIN_S
        again_s = first
        while not await self._tried(subject, is_first=True):
            await asyncio.sleep(_spread(again_s))
            again_s = min(again_s * 2, longest)
        pause_s = SOON_S
        while True:
            await asyncio.sleep(_spread(pause_s))
            pause_s = EVERY_S if await self._tried(subject, is_first=False) else longest

    async def _tried(self, subject: Subject, *, is_first: bool) -> bool:
        """List or sweep; a failure is logged once, however often it comes."""
        try:
            await (self.fill(subject) if is_first else self.sweep(subject))
        except errors.ClusterError as exc:
            if self._said.get(subject) != str(exc):
                logger.log(errors.log_level(exc), "%s: %s", subject, exc)
            self._said[subject] = str(exc)
            return False
        self._said.pop(subject, None)
        return True


def _spread(pause_s: float) -> float:
    """Shorten a pause a little, so that not all kinds are listed at once again."""
    return pause_s * random.uniform(0.8, 1)  # noqa: S311 (a spread)
