"""How many questions about tokens may be under way at once, so that made-up ones starve nobody.

Whoever calls is not known before the cluster answers; what the token says of itself is. A token
that names a registered account goes through a lane of its own account, everything else through one
narrow lane. A flood of random tokens so fills the narrow lane only, and one that names an account
only that account's.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from knowledge_service.errors import IdentityUnavailable

# An API server answers a review in a few milliseconds: two at a time are hundreds a second.
_MAX_UNKNOWN = 2
_MAX_PER_ACCOUNT = 2
_MAX_TOTAL = 16
# Who would be the 65th to wait for a lane would wait longer than a client does.
_MAX_QUEUED = 64
_MAX_CLAIMS_LENGTH = 16_384


def claimed_subject(token: str) -> str | None:
    """Return whom a token says it belongs to, without believing it; None when it says nothing."""
    parts = token.split(".")
    if len(parts) != 3 or len(parts[1]) > _MAX_CLAIMS_LENGTH:  # noqa: PLR2004 - the shape of a JWT
        return None
    try:
        padded = parts[1] + "=" * (-len(parts[1]) % 4)
        claims = json.loads(base64.urlsafe_b64decode(padded))
    except (binascii.Error, ValueError, RecursionError):
        return None
    subject = claims.get("sub") if isinstance(claims, dict) else None
    return subject if isinstance(subject, str) else None


class _AccountQueue:
    def __init__(self, concurrency: int) -> None:
        self.semaphore = asyncio.Semaphore(concurrency)
        self.length = 0


class TokenReviewLimiter:
    """Lets questions through. Used from one event loop only."""

    def __init__(self, is_registered: Callable[[str], Awaitable[bool]]) -> None:
        self._is_registered = is_registered
        self._queues: dict[str, _AccountQueue] = {}
        self._total = asyncio.Semaphore(_MAX_TOTAL)

    @asynccontextmanager
    async def hold_slot(self, token: str) -> AsyncIterator[None]:
        """Wait for a turn of the token's lane.

        Raises:
            IdentityUnavailable: too many wait there already.
        """
        subject = claimed_subject(token)
        account = subject if subject and await self._is_registered(subject) else ""
        queue = self._queues.setdefault(
            account, _AccountQueue(_MAX_PER_ACCOUNT if account else _MAX_UNKNOWN)
        )
        if queue.length >= _MAX_QUEUED:
            raise IdentityUnavailable("too many unknown tokens are being looked at; try again")
        queue.length += 1
        try:
            async with queue.semaphore, self._total:
                yield
        finally:
            queue.length -= 1
            if not queue.length:
                del self._queues[account]
