"""Whether the watches tell us what happens: first lists done, and no silence since.

A watch can die without a word (K1). So a Lease of our own is touched every 30 s and watched like
all the rest: when its echo stays away, events of other objects may stay away too. Readiness fails
then, liveness does not, for a restart would not mend the network. Without the operator's own
namespace among the watched ones there is no probe, and only the first lists count.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

from kais_operator import errors
from kais_operator.ports import Clock

logger = logging.getLogger(__name__)

TOUCH_S = 30.0
STALE_S = 180.0
_FIRST_LOOK_S = 1.0


HasAny = Callable[[str], Awaitable[bool]]
"""Says whether objects of a kind exist that the watches would tell of."""


Touch = Callable[[], Awaitable[None]]


class Freshness:
    """What came over the watches, and when."""

    def __init__(self, clock: Clock, *, kinds: Iterable[str], has_probe: bool) -> None:
        self._clock = clock
        self._unheard = set(kinds)
        self._last: dict[str, float] = {}
        self._has_probe = has_probe
        self._echo_at: float | None = None
        self._warned: set[str] = set()

    def note(self, kind: str) -> None:
        """Note an event of a kind."""
        self._last[kind] = self._clock.monotonic()
        self._unheard.discard(kind)

    def note_echo(self) -> None:
        """Note an event of our own Lease."""
        self._echo_at = self._clock.monotonic()

    def age_s(self, kind: str) -> float:
        """Say how long ago the last event of a kind came; -1 before the first."""
        last = self._last.get(kind)
        return -1.0 if last is None else self._clock.monotonic() - last

    def problem(self) -> str | None:
        """Say in words why the watches are not to be trusted; None when they are."""
        if self._unheard:
            return f"the first list is missing: {', '.join(sorted(self._unheard))}"
        if not self._has_probe:
            return None
        if self._echo_at is None:
            return "the watch of our own Lease has not begun"
        silence_s = self._clock.monotonic() - self._echo_at
        if silence_s > STALE_S:
            return f"no watch event for {silence_s:.0f} s, though our own Lease was touched"
        return None

    async def run(self, has_any: HasAny, touch: Touch | None) -> None:
        """Touch the Lease and, at first, look for kinds that have nothing to tell."""
        waited_s = TOUCH_S
        while True:
            if touch is not None and waited_s >= TOUCH_S:
                await _tried(touch)
                waited_s = 0.0
            await self._drop_empty(has_any, sorted(self._unheard))
            pause_s = _FIRST_LOOK_S if self._unheard else TOUCH_S
            await asyncio.sleep(pause_s)
            waited_s += pause_s

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            logger.warning("%s", text)

    async def _drop_empty(self, has_any: HasAny, kinds: Sequence[str]) -> None:
        """A kind without objects has no first event; asking again later finds those that came."""
        for kind in kinds:
            try:
                is_needed = await has_any(kind)
            except errors.ClusterError as exc:
                self._warn_once(f"{kind} cannot be listed: {exc}")
                continue
            if not is_needed:
                self._unheard.discard(kind)


async def _tried(touch: Touch) -> None:
    try:
        await touch()
    except (errors.ClusterError, errors.NotLeading) as exc:
        logger.warning("the Lease of the watch probe was not touched: %s", exc)
