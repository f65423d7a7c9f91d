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
_NARROW = 2
_AN_ACCOUNT = 2
_IN_ALL = 16
# Who would be the 65th to wait for a lane would wait longer than a client does.
_WAITING = 64
_LONGEST_CLAIMS = 16_384


def claimed_subject(token: str) -> str | None:
    """Return whom a token says it belongs to, without believing it; None when it says nothing."""
    parts = token.split(".")
    if len(parts) != 3 or len(parts[1]) > _LONGEST_CLAIMS:  # noqa: PLR2004 - the shape of a JWT
        return None
    try:
        padded = parts[1] + "=" * (-len(parts[1]) % 4)
        claims = json.loads(base64.urlsafe_b64decode(padded))
    except (binascii.Error, ValueError, RecursionError):
        return None
    subject = claims.get("sub") if isinstance(claims, dict) else None
    return subject if isinstance(subject, str) else None


class _Lane:
    def __init__(self, width: int) -> None:
        self.gate = asyncio.Semaphore(width)
        self.inside = 0


class Lanes:
    """Lets questions through. Used from one event loop only."""

    def __init__(self, is_known: Callable[[str], Awaitable[bool]]) -> None:
        self._is_known = is_known
        self._lanes: dict[str, _Lane] = {}
        self._all = asyncio.Semaphore(_IN_ALL)

    @asynccontextmanager
    async def turn(self, token: str) -> AsyncIterator[None]:
        """Wait for a turn of the token's lane.

        Raises:
            IdentityUnavailable: too many wait there already.
        """
        subject = claimed_subject(token)
        name = subject if subject and await self._is_known(subject) else ""
        lane = self._lanes.setdefault(name, _Lane(_AN_ACCOUNT if name else _NARROW))
        if lane.inside >= _WAITING:
            raise IdentityUnavailable("too many unknown tokens are being looked at; try again")
        lane.inside += 1
        try:
            async with lane.gate, self._all:
                yield
        finally:
            lane.inside -= 1
            if not lane.inside:
                del self._lanes[name]
