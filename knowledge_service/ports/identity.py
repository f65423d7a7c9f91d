"""Who is calling."""

from __future__ import annotations

from typing import Literal, Protocol

from knowledge_service.domain.access_control import Principal


class Authenticator(Protocol):
    """Finds out who calls, once per request."""

    @property
    def mode(self) -> Literal["kubernetes", "token", "none"]:
        """Return how callers are told apart."""
        ...

    async def principal(self, bearer: str | None) -> Principal:
        """Return the principal behind a token; None when the request had none.

        Raises:
            Unauthenticated: there is no good token.
            Unregistered: the token's account is not registered.
            IdentityUnavailable: nobody can be asked now.
        """
        ...
