"""Verifies tickets at the knowledge service, under the cell's own token."""

from __future__ import annotations

import asyncio
from typing import Final

from agent_runtime.tickets import Caller, TicketRefused, VerifierUnavailable
from knowledge_client import AsyncKnowledgeClient, errors
from knowledge_client.errors import ErrorCode

VERIFY_S: Final = 5.0
_STATUS: Final[dict[str, int]] = {
    ErrorCode.TICKET_INVALID: 401,
    ErrorCode.TICKET_EXPIRED: 401,
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.LOOP: 403,
}


class KnowledgeVerifier:
    """Verifies tickets by the knowledge service; without one, no ticket is accepted."""

    def __init__(self, client: AsyncKnowledgeClient | None) -> None:
        self._client = client

    async def verify(self, ticket: str) -> Caller:
        """Return the caller that a ticket names.

        Raises:
            TicketRefused: The ticket is invalid, expired, or for another cell.
            VerifierUnavailable: The knowledge service cannot verify the ticket now.
        """
        if self._client is None:
            raise VerifierUnavailable("there is no knowledge service that could verify the ticket")
        try:
            async with asyncio.timeout(VERIFY_S):
                verified = await self._client.verify_ticket(ticket)
        except TimeoutError as exc:
            raise VerifierUnavailable("the knowledge service does not answer") from exc
        except errors.KnowledgeError as exc:
            status = _STATUS.get(exc.code or "")
            if status is None or exc.code is None:
                raise VerifierUnavailable(f"the ticket cannot be verified: {exc}") from exc
            raise TicketRefused(status, exc.code, str(exc)) from exc
        return Caller(
            name=verified.caller,
            role=verified.role,
            cell=verified.cell,
            run_id=verified.run_id,
            attempt=verified.attempt,
            arm=verified.arm,
            hops=verified.hops,
            budget_left=verified.budget_left,
            ticket=ticket,
        )
