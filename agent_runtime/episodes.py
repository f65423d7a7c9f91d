"""Records the events of an attempt as episodes of its run, from which facts are extracted.

The record never delays or stops the work: what the knowledge service does not take is counted and
logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Protocol

import pydantic

from agent_runtime.events import AgentEvent
from agent_runtime.money.meter import Clock
from knowledge_client import errors, models

CONTENT_CHARACTERS: Final = 4000
MAX_EPISODES: Final = 400
"""Maximum number of episodes of one attempt; the last one says how many were left out."""
_BATCH: Final = 50
_CLOSE_S: Final = 10.0
_log = logging.getLogger(__name__)


class EpisodeClient(Protocol):
    """The part of the knowledge client that records episodes."""

    def add_episodes(self, episodes: models.EpisodesIn) -> Awaitable[models.EpisodesAccepted]:
        """Add episodes to a run."""


class EpisodeRecorder:
    """Sends events as episodes in the background, in order.

    Episodes that the service does not take are sent again with the next ones, because the run may
    be recorded later than it starts. Repeats do no harm: the service compares the content.
    """

    def __init__(
        self,
        client: EpisodeClient,
        *,
        run_id: str,
        attempt: int,
        mask: Callable[[str], str],
        clock: Clock,
        refs: Sequence[models.Ref] = (),
    ) -> None:
        self._client = client
        self._run_id = run_id
        self._attempt = attempt
        self._mask = mask
        self._clock = clock
        self._refs = tuple(refs)
        self._unsent: list[models.EpisodeIn] = []
        self._count = 0
        self._problem = ""
        self._has_events = asyncio.Event()
        self._task = asyncio.create_task(self._send_all())

    def record(self, event: AgentEvent) -> None:
        """Record an event; does not wait."""
        content = self._mask(event.content).strip()[:CONTENT_CHARACTERS]
        if not content:
            return
        self._count += 1
        if self._count <= MAX_EPISODES:
            self._unsent.append(self._episode(event, content))
            self._has_events.set()

    async def close(self) -> None:
        """Send what is left, within a few seconds."""
        if self._count > MAX_EPISODES:
            content = f"{self._count - MAX_EPISODES} further episodes were left out"
            self._unsent.append(self._episode(AgentEvent("error", content), content))
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._send()
        if self._unsent:
            _log.warning("%d episodes were not recorded: %s", len(self._unsent), self._problem)

    def _episode(self, event: AgentEvent, content: str) -> models.EpisodeIn:
        return models.EpisodeIn(
            attempt=self._attempt,
            type=event.type,
            content=content,
            error_signature=event.signature[:512] if event.signature else None,
            refs=self._refs,
            at=datetime.fromtimestamp(self._clock.now_s(), UTC),
        )

    async def _send_all(self) -> None:
        while True:
            await self._has_events.wait()
            self._has_events.clear()
            await self._send()

    async def _send(self) -> None:
        while self._unsent:
            batch = tuple(self._unsent[:_BATCH])
            try:
                await self._client.add_episodes(
                    models.EpisodesIn(run_id=self._run_id, episodes=batch)
                )
            except (errors.KnowledgeError, pydantic.ValidationError) as exc:
                self._problem = str(exc)
                return
            del self._unsent[: len(batch)]


def mission_refs(values: Mapping[str, str | None]) -> tuple[models.Ref, ...]:
    """Return references of the given types, without those that are unknown."""
    return tuple(models.Ref(type=kind, id=value) for kind, value in values.items() if value)
