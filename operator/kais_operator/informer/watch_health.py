"""Whether the watches are complete and alive: first lists done, and no silence since.

A watch can die silently. The operator therefore writes a Lease of its own every 30 s and watches it
like everything else: without its events, events of other objects may be missing too. Each kind is
also relisted regularly; kinds that cannot be listed are reported here. Readiness fails then, but
not liveness, because a restart does not repair the network. A named namespace that is absent is
left out until it can be listed again; see `absent_namespaces`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable

from kais_operator import errors
from kais_operator.informer.absent_namespaces import Watch, absent_namespaces
from kais_operator.ports import Clock

logger = logging.getLogger(__name__)

HEARTBEAT_PERIOD_S = 30.0
STALE_S = 180.0
HeartbeatWriter = Callable[[], Awaitable[None]]


class WatchHealth:
    """Records when watches and lists last delivered something.

    `on_absent_change` is called when `absent` has changed.

    Attributes:
        absent: the named namespaces that are absent.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        watches: Iterable[Watch],
        namespaces: Iterable[str] = (),
        operator_namespace: str = "",
        on_absent_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._clock = clock
        self._watches = frozenset(watches)
        self._namespaces = frozenset(namespaces)
        self._operator_namespace = operator_namespace
        self._on_absent_change = on_absent_change
        self._unlisted = set(self._watches)
        self._forbidden: set[Watch] = set()
        self.absent: frozenset[str] = frozenset()
        self._returns: dict[str | None, asyncio.Event] = {}
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
        if self._forbidden:
            self._forbidden.discard((kind, namespace))
            self._decide_absent()
        self._check_all_listed()

    def record_forbidden(self, kind: str, namespace: str | None) -> None:
        """Record that a list or relist of a kind was forbidden."""
        self._forbidden.add((kind, namespace))
        self._decide_absent()
        self._check_all_listed()

    def is_absent(self, namespace: str | None) -> bool:
        """Return whether a namespace is named but absent."""
        return namespace in self.absent

    async def wait_present(self, namespace: str | None, *, timeout_s: float | None = None) -> None:
        """Wait until a namespace is not absent, for at most `timeout_s`."""
        if namespace not in self._returns:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._returns[namespace].wait()

    def _decide_absent(self) -> None:
        absent = absent_namespaces(
            self._watches,
            named=self._namespaces,
            operator_namespace=self._operator_namespace,
            listed=self._listed_at.keys(),
            forbidden=self._forbidden,
        )
        gone, back = absent - self.absent, self.absent - absent
        self.absent = absent
        for namespace in sorted(gone):
            self._leave_out(namespace)
        for namespace in sorted(back):
            self._take_back(namespace)
        if gone or back:
            self._on_absent_change()

    def _leave_out(self, namespace: str) -> None:
        logger.error(
            "namespace %s: every list is forbidden, so it counts as deleted and is not watched; "
            "create it and its Role again, or take it out of the value `namespaces` of the chart",
            namespace,
        )
        self._returns[namespace] = asyncio.Event()
        for watch in self._watches_in(namespace):
            self._unlisted.discard(watch)
            self._listed_at.pop(watch, None)

    def _take_back(self, namespace: str) -> None:
        watches = self._watches_in(namespace)
        if not watches <= self._forbidden:
            logger.info("namespace %s can be listed again and is watched", namespace)
        self._returns.pop(namespace).set()
        self._unlisted |= watches - self._listed_at.keys()

    def _watches_in(self, namespace: str) -> set[Watch]:
        return {watch for watch in self._watches if watch[1] == namespace}

    def _check_all_listed(self) -> None:
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
        """Whether all first lists were complete once, without those of absent namespaces."""
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
