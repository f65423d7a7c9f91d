"""Tickets without a knowledge service: JSON that says what a real ticket says sealed."""

from __future__ import annotations

import json
from typing import Any

from agent_runtime.tickets import Caller, TicketRefused, VerifierUnavailable


def ticket(**claims: Any) -> str:
    """A ticket of the operator for run-1; claims replace or add fields of its caller."""
    caller = {"name": "operator", "role": "operator", "run_id": "run-1", "attempt": 1}
    return json.dumps({"callee": "critic-0", **caller, **claims})


class Tickets:
    """Verifies tickets for one cell."""

    def __init__(self, cell: str = "critic-0") -> None:
        self.cell = cell
        self.is_available = True
        self.verified: list[str] = []

    async def verify(self, ticket: str) -> Caller:
        if not self.is_available:
            raise VerifierUnavailable("the knowledge service does not answer", retry_after_s=7)
        self.verified.append(ticket)
        try:
            claims = json.loads(ticket)
        except ValueError:
            raise TicketRefused(401, "ticket-invalid", "the ticket is not valid") from None
        if claims.pop("is_expired", False):
            raise TicketRefused(401, "ticket-expired", "the ticket has expired")
        if claims.pop("callee") != self.cell:
            raise TicketRefused(403, "ticket-invalid", "the ticket is for another cell")
        return Caller.load({**claims, "ticket": ticket})
