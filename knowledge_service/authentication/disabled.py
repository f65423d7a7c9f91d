"""No authentication: every caller is an administrator.

For local use and tests; `settings` allows it on loopback addresses only.
"""

from __future__ import annotations

from typing import Literal

from knowledge_service.domain.principals import Principal, administrator


class NoAuthentication:
    """Accepts every request as the same local administrator, whatever its token."""

    mode: Literal["kubernetes", "token", "none"] = "none"

    def __init__(self) -> None:
        self._local = administrator("local", "human")

    async def principal(self, bearer: str | None) -> Principal:
        """Return the local administrator."""
        return self._local
