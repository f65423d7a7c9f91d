"""The verified caller of a message, and the run that it calls for, from its ticket."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any, Literal, Protocol

from kais import a2a

Role = Literal["operator", "cell", "person"]


@dataclass(frozen=True, kw_only=True)
class Caller:
    """The caller of a message.

    Attributes:
        name: account or principal, as the knowledge service knows it.
        cell: short name of a calling cell.
        budget_left: what the run may still cost, in US dollars as text; None is no limit.
        ticket: the ticket itself, under which this cell may ask its own peers.
        traceparent: the trace that the message belongs to.
    """

    name: str
    role: Role
    cell: str | None = None
    run_id: str | None = None
    attempt: int | None = None
    arm: str = "on"
    hops: tuple[str, ...] = ()
    budget_left: str | None = None
    ticket: str = ""
    traceparent: str | None = None

    @property
    def owner(self) -> str:
        """The owner of the caller's tasks; all replicas of the operator are one owner."""
        return a2a.OPERATOR if self.role == "operator" else f"{self.role}/{self.name}"

    @property
    def max_cost(self) -> Decimal | None:
        """The limit of the run's further cost in US dollars; None is no limit."""
        return None if self.budget_left is None else Decimal(self.budget_left)

    def dump(self) -> dict[str, Any]:
        """Return the fields as JSON."""
        return asdict(self)

    @staticmethod
    def load(value: dict[str, Any]) -> Caller:
        """Read the fields from JSON."""
        return Caller(**{**value, "hops": tuple(value.get("hops", ()))})


class TicketRefused(Exception):
    """The ticket is not valid for this cell; the status is 401 or 403."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class VerifierUnavailable(Exception):
    """The ticket cannot be verified now."""

    def __init__(self, message: str, *, retry_after_s: int = 5) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class TicketVerifier(Protocol):
    """Verifies the tickets that callers send."""

    async def verify(self, ticket: str) -> Caller:
        """Return who calls.

        Raises:
            TicketRefused: The ticket is invalid, expired, or for another cell.
            VerifierUnavailable: The verifier cannot be reached.
        """
