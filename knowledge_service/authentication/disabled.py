"""Everybody is an administrator.

For a laptop and for tests; `settings` refuses it beyond loopback.
"""

from __future__ import annotations

from typing import Literal

from knowledge_service.domain.access_control import Principal, administrator


class NoAuthentication:
    """Takes everybody for the same local administrator, whatever token comes."""

    mode: Literal["kubernetes", "token", "none"] = "none"

    def __init__(self) -> None:
        self._local = administrator("local", "human")

    async def principal(self, bearer: str | None) -> Principal:
        """Return the local administrator."""
        return self._local
