"""Tickets: a cell that is called learns from the service who calls it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from knowledge_client.base_model import SafeInt, UtcDatetime, WireModel

Arm = Literal["on", "off", "holdout"]
CallerRole = Literal["operator", "cell", "person"]

_AMOUNT = r"^[0-9]{1,18}(\.[0-9]{1,18})?$"


class TicketIn(WireModel):
    """A call that the caller wants to make.

    `to` is the short name of a cell of the caller's formation (`worker-0`), or the username of a
    ServiceAccount (`system:serviceaccount:demo:team-lead-0`). A cell names the `ticket` under which
    it was called itself; without one, the `run_id` of its formation that it works for.
    The arm is that of the run in the ledger; for a run that the ledger lacks, the operator names
    the `arm`.
    """

    to: str = Field(min_length=1, max_length=512)
    run_id: str | None = Field(default=None, max_length=128)
    attempt: SafeInt = Field(default=1, ge=1)
    arm: Arm | None = None
    ticket: str | None = Field(default=None, max_length=8192)
    budget_left: str | None = Field(
        default=None,
        pattern=_AMOUNT,
        description="what the callee may spend, as a decimal; at most what the ticket leaves",
    )


class Ticket(WireModel):
    """A sealed ticket: it serves one callee, until `expires_at`."""

    ticket: str
    expires_at: UtcDatetime


class VerifyTicketIn(WireModel):
    """A ticket that the caller of this route received."""

    ticket: str = Field(min_length=1, max_length=8192)


class VerifiedTicket(WireModel):
    """The caller of a ticket, and the work that it calls for.

    `cell` is the short name of a calling cell. `hops` names the accounts of the cells that the call
    has passed, the nearest last; the operator and people are none.
    """

    caller: str
    role: CallerRole
    cell: str | None = None
    run_id: str | None = None
    attempt: int = 1
    arm: Arm = "on"
    hops: tuple[str, ...] = ()
    budget_left: str | None = None
    expires_at: UtcDatetime
