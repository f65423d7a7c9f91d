"""A bound on work in flight that no namespace can use up alone.

At most `total` run at a time and at most `share` of one namespace. What waits is admitted by
namespace in turn, so a namespace with one waiter is not behind the hundred of another.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import TypeVar

K = TypeVar("K")


def surplus(keys: Sequence[K], *, limit: int, namespace: Callable[[K], str]) -> Iterator[K]:
    """Choose what exceeds a limit: the oldest of whichever namespace has most, one by one.

    `keys` are ordered by age, the oldest first.
    """
    by_namespace: dict[str, deque[K]] = {}
    for key in keys:
        by_namespace.setdefault(namespace(key), deque()).append(key)
    for _ in range(len(keys) - limit):
        yield max(by_namespace.values(), key=len).popleft()


class FairSlots:
    """Slots of one event loop; not to be used from another."""

    def __init__(self, *, total: int, share: int) -> None:
        self._total = total
        self._share = share
        self._running: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @contextlib.asynccontextmanager
    async def slot(self, namespace: str) -> AsyncIterator[None]:
        """Wait for a slot, and hold it for the block."""
        admitted = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(namespace, deque()).append(admitted)
        self._admit()
        try:
            await admitted
        except asyncio.CancelledError:
            if admitted.done() and not admitted.cancelled():
                self._release(namespace)
            raise
        try:
            yield
        finally:
            self._release(namespace)

    def _release(self, namespace: str) -> None:
        self._running[namespace] -= 1
        if not self._running[namespace]:
            del self._running[namespace]
        self._admit()

    def _admit(self) -> None:
        """Admit one waiter of each namespace in turn while there are slots."""
        while self._running.total() < self._total:
            namespace = next((n for n in self._waiting if self._running[n] < self._share), None)
            if namespace is None:
                return
            waiting = self._waiting.pop(namespace)
            admitted = waiting.popleft()
            if waiting:
                self._waiting[namespace] = waiting  # behind the other namespaces
            if not admitted.cancelled():
                self._running[namespace] += 1
                admitted.set_result(None)
