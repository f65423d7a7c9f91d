"""Whether the watches are complete and alive: first lists done, and no silence since.

A watch can die silently. The operator therefore writes a Lease of its own every 30 s and watches it
like everything else: without its events, events of other objects may be missing too. Each kind is
also relisted regularly; kinds that cannot be listed are reported here. Readiness fails then, but
not liveness, because a restart does not repair the network.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from kais_operator import errors
from kais_operator.ports import Clock

logger = logging.getLogger(__name__)

HEARTBEAT_PERIOD_S = 30.0
STALE_S = 180.0
HeartbeatWriter = Callable[[], Awaitable[None]]
Watch = tuple[str, str | None]
"""A kind and a namespace; None for all namespaces."""


class WatchHealth:
    """Records when watches and lists last delivered something."""

    def __init__(self, clock: Clock, *, watches: Iterable[Watch]) -> None:
        self._clock = clock
        self._unlisted = set(watches)
        self._listed_at: dict[Watch, float] = {}
        self._last_event_at: dict[str, float] = {}
        self._heartbeat_at: float | None = None
        self._all_listed = asyncio.Event()

    def record_event(self, kind: str) -> None:
        """Record an event of a kind."""
        self._last_event_at[kind] = self._clock.monotonic()

    def record_list(self, kind: str, namespace: str | None) -> None:
        """Record that a list or relist of a kind is complete."""
        self._listed_at[kind, namespace] = self._clock.monotonic()
        self._unlisted.discard((kind, namespace))
        if not self._unlisted:
            self._all_listed.set()

    def record_heartbeat(self) -> None:
        """Record an event of the heartbeat's Lease."""
        self._heartbeat_at = self._clock.monotonic()

    def event_age_s(self, kind: str) -> float:
        """Return the age of a kind's last event in seconds; -1 before the first."""
        last = self._last_event_at.get(kind)
        return -1.0 if last is None else self._clock.monotonic() - last

    def problem(self) -> str | None:
        """Return why the watches cannot be trusted; None if they can."""
        if self._unlisted:
            kinds = sorted({kind for kind, _ in self._unlisted})
            return f"the first list is missing: {', '.join(kinds)}"
        if self._heartbeat_at is None:
            return "the watch of our own Lease has not begun"
        now = self._clock.monotonic()
        if now - self._heartbeat_at > STALE_S:
            silence_s = now - self._heartbeat_at
            return f"no watch event for {silence_s:.0f} s, though our own Lease was touched"
        silent = {kind: now - at for (kind, _), at in self._listed_at.items() if now - at > STALE_S}
        if silent:
            kind, silence_s = max(silent.items(), key=lambda item: item[1])
            return f"{kind} could not be listed for {silence_s:.0f} s"
        return None

    @property
    def is_listed(self) -> bool:
        """Whether all first lists are complete."""
        return self._all_listed.is_set()

    async def wait_listed(self, *, timeout_s: float | None = None) -> None:
        """Wait for all first lists, for at most `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._all_listed.wait()
        except TimeoutError:
            logger.warning("%s; working without it", self.problem())

    async def run(self, write_heartbeat: HeartbeatWriter) -> None:
        """Write the heartbeat every `HEARTBEAT_PERIOD_S`."""
        while True:
            await _write_or_log(write_heartbeat)
            await asyncio.sleep(HEARTBEAT_PERIOD_S)


async def _write_or_log(write_heartbeat: HeartbeatWriter) -> None:
    try:
        await write_heartbeat()
    except (errors.ClusterError, errors.NotLeading) as exc:
        logger.log(errors.log_level(exc), "the Lease of the watch probe was not touched: %s", exc)
