"""Runs the calls of one request outside of the event loop, within the limits of its caller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from knowledge_service.domain.principals import Principal
from knowledge_service.use_cases import concurrency_limits
from knowledge_service.use_cases.services import Services

T = TypeVar("T")


@dataclass(frozen=True)
class Offload:
    """Runs calls of one request in threads, each in a slot of its caller."""

    services: Services
    principal: Principal
    body: bytes
    """The request, whose size decides what needs a thread."""

    async def run(
        self,
        call: Callable[[], T],
        kind: concurrency_limits.SlotKind = "recalls",
        on_begin: Callable[[], None] = lambda: None,
    ) -> T:
        """Wait for a slot, then run a call; before it, `on_begin` on the event loop.

        Raises:
            StoreUnavailable: no slot became free in time.
        """
        async with self.services.concurrency_limiter.hold_slot(self.principal, kind):
            on_begin()
            return await self.services.threads.run(call)
