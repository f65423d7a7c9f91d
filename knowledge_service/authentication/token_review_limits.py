"""Limits of concurrent TokenReviews, so that invalid tokens cannot delay valid ones.

A caller is unknown until the API server answers, but a token claims a subject. A token that claims
a registered account waits in the queue of that account, every other token in one common queue. So
a flood of random tokens fills only the common queue, and forged tokens of one account only its own.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from knowledge_service.errors import IdentityUnavailable

# A review takes a few milliseconds, so two at a time are hundreds a second.
_MAX_UNKNOWN = 2
_MAX_PER_ACCOUNT = 2
_MAX_TOTAL = 16
# The 65th in a queue would wait longer than the timeout of clients.
_MAX_QUEUED = 64
_MAX_CLAIMS_LENGTH = 16_384


def claimed_subject(token: str) -> str | None:
    """Return the subject that a token claims, unverified; None without one that can be a name."""
    parts = token.split(".")
    if len(parts) != 3 or len(parts[1]) > _MAX_CLAIMS_LENGTH:  # noqa: PLR2004 - the shape of a JWT
        return None
    try:
        padded = parts[1] + "=" * (-len(parts[1]) % 4)
        claims = json.loads(base64.urlsafe_b64decode(padded))
        subject = claims.get("sub") if isinstance(claims, dict) else None
        if isinstance(subject, str):
            subject.encode()  # JSON also has halves of characters, which no name has
            return subject
    except (binascii.Error, ValueError, RecursionError):
        return None
    return None


class _AccountQueue:
    def __init__(self, concurrency: int) -> None:
        self.semaphore = asyncio.Semaphore(concurrency)
        self.length = 0


class TokenReviewLimiter:
    """Limits concurrent reviews. Use it from one event loop only."""

    def __init__(self, is_registered: Callable[[str], Awaitable[bool]]) -> None:
        self._is_registered = is_registered
        self._queues: dict[str, _AccountQueue] = {}
        self._total = asyncio.Semaphore(_MAX_TOTAL)

    @asynccontextmanager
    async def hold_slot(self, token: str) -> AsyncIterator[None]:
        """Wait for a slot in the queue of the token, and hold it.

        Raises:
            IdentityUnavailable: the queue is full.
        """
        subject = claimed_subject(token)
        account = subject if subject and await self._is_registered(subject) else ""
        queue = self._queues.setdefault(
            account, _AccountQueue(_MAX_PER_ACCOUNT if account else _MAX_UNKNOWN)
        )
        if queue.length >= _MAX_QUEUED:
            raise IdentityUnavailable("too many unknown tokens are waiting for review; try again")
        queue.length += 1
        try:
            async with queue.semaphore, self._total:
                yield
        finally:
            queue.length -= 1
            if not queue.length:
                del self._queues[account]
