"""Synchronises with the knowledge service: its identity, availability and statistics.

every 5 s, and soon after a change        due statistics in one batch; reports what changed
after it was unavailable, and each 10 min    whoami; for a new store, or on time, registers again
at the start, and for a new store         reads which scopes have settings
when it becomes unavailable               reports that once
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from kais_operator.knowledge.sync_state import KnowledgeSyncState
from kais_operator.ports import Clock, Knowledge
from knowledge_client import errors, models

logger = logging.getLogger(__name__)

PERIOD_S = 5.0
COALESCE_S = 1.0
"""Changes within this time are read together, such as the end of several runs."""
REGISTRATION_PERIOD_S = 600.0
"""Registrations are a projection of the cluster and are repeated (knowledge.md)."""

StatsCallback = Callable[[list[tuple[str, str]], list[str]], Awaitable[None]]
RegistrationCallback = Callable[[], Awaitable[None]]
UnavailableCallback = Callable[[], Awaitable[None]]


class KnowledgeSync:
    """The background task that synchronises with the knowledge service.

    `on_stats_change` gets the Blueprints (namespace, name) and the scope paths with new statistics.
    `repeat_registrations` is called after registrations were dropped from the sync state,
    `on_unavailable` when the service stops answering.
    """

    def __init__(
        self,
        knowledge: Knowledge,
        sync_state: KnowledgeSyncState,
        clock: Clock,
        *,
        on_stats_change: StatsCallback,
        repeat_registrations: RegistrationCallback,
        on_unavailable: UnavailableCallback,
    ) -> None:
        self._knowledge = knowledge
        self._sync_state = sync_state
        self._clock = clock
        self._on_stats_change = on_stats_change
        self._repeat_registrations = repeat_registrations
        self._on_unavailable = on_unavailable
        self._is_unavailable = False
        self._registered_at = clock.monotonic()
        self._is_identified = False
        self._has_loaded_scopes = False
        self._last_logged = ""

    async def run(self) -> None:
        """Synchronise every `PERIOD_S`, and soon after a refresh was requested, until cancelled."""
        while True:
            self._sync_state.refresh_requested.clear()
            await self.sync_once()
            try:
                async with asyncio.timeout(PERIOD_S):
                    await self._sync_state.refresh_requested.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(COALESCE_S)

    async def sync_once(self) -> None:
        """Synchronise once; an error of the service is logged, and the next call tries again."""
        try:
            await self._sync()
            if self._is_unavailable:
                logger.info("the knowledge service serves again")
            self._is_unavailable = False
        except errors.KnowledgeError as exc:
            self._is_identified = False
            if str(exc) != self._last_logged:
                logger.warning("the knowledge service does not serve: %s", exc)
            self._last_logged = str(exc)
            if not self._is_unavailable:
                self._is_unavailable = True
                await self._on_unavailable()

    async def _sync(self) -> None:
        if self._sync_state.unavailable_reason() is not None:
            self._is_identified = False
        is_registration_due = self._clock.monotonic() - self._registered_at >= REGISTRATION_PERIOD_S
        if not self._is_identified or is_registration_due:
            await self._check_identity(is_registration_due=is_registration_due)
        request = self._sync_state.due_stats()
        if request.blueprints or request.scopes:
            await self._refresh_stats(request)

    async def _check_identity(self, *, is_registration_due: bool) -> None:
        identity = await self._knowledge.whoami()
        is_new_store = self._sync_state.record_store(identity.store)
        if is_new_store or not self._has_loaded_scopes:
            await self._load_configured_scopes()
        self._is_identified, self._last_logged = True, ""
        if is_registration_due:
            self._sync_state.clear_registrations()
            self._registered_at = self._clock.monotonic()
        if is_new_store or is_registration_due:
            reason = "another store answers" if is_new_store else "10 minutes have passed"
            logger.info("sending everything to the knowledge service again: %s", reason)
            await self._repeat_registrations()

    async def _load_configured_scopes(self) -> None:
        """Read which scopes have settings: their objects may have been deleted meanwhile."""
        cursor: str | None = None
        while True:
            page = await self._knowledge.list_scopes(cursor=cursor)
            for scope in page.scopes:
                if scope.declared:
                    self._sync_state.record_settings(scope.path, scope.config)
            cursor = page.cursor
            if cursor is None:
                break
        self._has_loaded_scopes = True

    async def _refresh_stats(self, request: models.StatsIn) -> None:
        try:
            stats = await self._knowledge.stats_batch(request)
        except errors.KnowledgeError:
            self._sync_state.mark_unread(request)
            raise
        blueprints, scopes = self._sync_state.record_stats(stats)
        if blueprints or scopes:
            await self._on_stats_change(blueprints, scopes)
