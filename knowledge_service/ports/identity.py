"""Port for authentication."""

from __future__ import annotations

from typing import Literal, Protocol

from knowledge_service.domain.principals import Principal


class Authenticator(Protocol):
    """Identifies the caller, once per request."""

    @property
    def mode(self) -> Literal["kubernetes", "token", "none"]:
        """Return the method by which callers are authenticated."""
        ...

    async def principal(self, bearer: str | None) -> Principal:
        """Return the principal of a token.

        Args:
            bearer: the token; None when the request had none.

        Raises:
            Unauthenticated: there is no valid token.
            Unregistered: the token's account is not registered.
            IdentityUnavailable: no authority can review the token now.
        """
        ...
