"""Keeps an eye on the store: which one it is, whether it is there, and what its numbers say.

every 5 s, and soon after something changed
              due statistics in one batch; the Blueprints and scopes that changed are told
when it was away, and every 10 min    whoami; another store, or the time, has all told again
at first, and of another store        which scopes have settings
when it goes away                     told once: who shows that it answers shall say so
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from kais_operator.knowledge.sync_state import StoreMemory
from kais_operator.ports import Clock, Knowledge
from knowledge_client import errors, models

logger = logging.getLogger(__name__)

TICK_S = 5.0
SETTLE_S = 1.0
"""What changes together is read together: several runs' ends, and the facts of one."""
REPEAT_S = 600.0
"""Registrations are a projection of the cluster and repeated this often (knowledge.md)."""

StatsChanged = Callable[[list[tuple[str, str]], list[str]], Awaitable[None]]
ToldAgain = Callable[[], Awaitable[None]]
WentAway = Callable[[], Awaitable[None]]


class StoreWatch:
    """The background look at the store.

    `stats_changed` gets the Blueprints (namespace, name) and the scope paths whose numbers moved;
    `tell_again` is called after the memory forgot what the store was told, `went_away` when the
    store does not serve any more.
    """

    def __init__(
        self,
        knowledge: Knowledge,
        memory: StoreMemory,
        clock: Clock,
        *,
        stats_changed: StatsChanged,
        tell_again: ToldAgain,
        went_away: WentAway,
    ) -> None:
        self._knowledge = knowledge
        self._memory = memory
        self._clock = clock
        self._stats_changed = stats_changed
        self._tell_again = tell_again
        self._went_away = went_away
        self._is_away = False
        self._repeated_at = clock.monotonic()
        self._is_known = False
        self._has_learnt = False
        self._said = ""

    async def run(self) -> None:
        """Look every `TICK_S`, and soon after something is wanted, until cancelled."""
        while True:
            self._memory.wanted.clear()
            await self.tick()
            try:
                async with asyncio.timeout(TICK_S):
                    await self._memory.wanted.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(SETTLE_S)

    async def tick(self) -> None:
        """Look once; a store that is away or refuses is logged and looked at again."""
        try:
            await self._look()
            if self._is_away:
                logger.info("the knowledge service serves again")
            self._is_away = False
        except errors.KnowledgeError as exc:
            self._is_known = False
            if str(exc) != self._said:
                logger.warning("the knowledge service does not serve: %s", exc)
            self._said = str(exc)
            if not self._is_away:
                self._is_away = True
                await self._went_away()

    async def _look(self) -> None:
        if self._memory.store_problem() is not None:
            self._is_known = False
        is_time = self._clock.monotonic() - self._repeated_at >= REPEAT_S
        if not self._is_known or is_time:
            await self._meet(is_time=is_time)
        request = self._memory.due()
        if request.blueprints or request.scopes:
            await self._read(request)

    async def _meet(self, *, is_time: bool) -> None:
        me = await self._knowledge.whoami()
        is_other = self._memory.note_store(me.store)
        if is_other or not self._has_learnt:
            await self._learn()
        self._is_known, self._said = True, ""
        if is_time:
            self._memory.forget_registrations()
            self._repeated_at = self._clock.monotonic()
        if is_other or is_time:
            reason = "another store answers" if is_other else "it is time again"
            logger.info("sending everything to the knowledge service again: %s", reason)
            await self._tell_again()

    async def _learn(self) -> None:
        """Read which scopes have settings: their objects may be gone since the last operator."""
        cursor: str | None = None
        while True:
            page = await self._knowledge.list_scopes(cursor=cursor)
            for scope in page.scopes:
                if scope.declared:
                    self._memory.note_settings(scope.path, scope.config)
            cursor = page.cursor
            if cursor is None:
                break
        self._has_learnt = True

    async def _read(self, request: models.StatsIn) -> None:
        try:
            stats = await self._knowledge.stats_batch(request)
        except errors.KnowledgeError:
            self._memory.note_unread(request)
            raise
        blueprints, scopes = self._memory.note_stats(stats)
        if blueprints or scopes:
            await self._stats_changed(blueprints, scopes)
