"""Share a fixed number of slots among namespaces, so that no namespace waits for another's backlog.

A namespace never gets all slots. Among the waiting namespaces the least recently served one is
next.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import TypeVar

K = TypeVar("K")
_REMEMBERED = 1000  # namespaces; arbitrary: one that is dropped from the record goes first once


def surplus(keys: Sequence[K], *, limit: int, namespace: Callable[[K], str]) -> Iterator[K]:
    """Yield the keys that exceed a limit: repeatedly the oldest of the namespace that has the most.

    `keys` are ordered by age, the oldest first.
    """
    by_namespace: dict[str, deque[K]] = {}
    for key in keys:
        by_namespace.setdefault(namespace(key), deque()).append(key)
    for _ in range(len(keys) - limit):
        yield max(by_namespace.values(), key=len).popleft()


class FairShare:
    """Grants at most `slots` turns at a time, at most `max_per_namespace` of them to one namespace.

    By default one slot is reserved for other namespaces. Use an instance in one event loop only.
    """

    def __init__(self, slots: int, *, max_per_namespace: int | None = None) -> None:
        self._free = slots
        self._most = max(1, slots - 1) if max_per_namespace is None else max_per_namespace
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._grants = itertools.count(1)
        self._last_grant: OrderedDict[str, int] = OrderedDict()

    @contextlib.asynccontextmanager
    async def turn(self, namespace: str) -> AsyncIterator[None]:
        """Wait for a slot and hold it for the block."""
        await self._acquire(namespace)
        try:
            yield
        finally:
            self._release(namespace)

    async def _acquire(self, namespace: str) -> None:
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(namespace, deque()).append(granted)
        self._grant()
        try:
            await granted
        except asyncio.CancelledError:
            if not granted.cancelled():
                self._release(namespace)
            raise

    def _release(self, namespace: str) -> None:
        self._free += 1
        self._held[namespace] -= 1
        self._held += Counter()  # drops namespaces that hold no slot
        self._grant()

    def _grant(self) -> None:
        while self._free > 0:
            eligible = (n for n in self._waiting if self._held[n] < self._most)
            namespace = min(eligible, key=lambda n: self._last_grant.get(n, 0), default=None)
            if namespace is None:
                return
            queue = self._waiting[namespace]
            granted = queue.popleft()
            if not queue:
                del self._waiting[namespace]
            if not granted.done():
                self._free -= 1
                self._held[namespace] += 1
                self._note_grant(namespace)
                granted.set_result(None)

    def _note_grant(self, namespace: str) -> None:
        self._last_grant[namespace] = next(self._grants)
        self._last_grant.move_to_end(namespace)
        if len(self._last_grant) > _REMEMBERED:
            self._last_grant.popitem(last=False)
