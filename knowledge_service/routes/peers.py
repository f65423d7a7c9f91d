"""Tickets for calls between cells."""

from __future__ import annotations

from fastapi import APIRouter

from knowledge_client.models import Ticket, TicketIn, VerifiedTicket, VerifyTicketIn
from knowledge_service.routes.dependencies import CallerDep, ServicesDep
from knowledge_service.routes.endpoint import Endpoint
from knowledge_service.use_cases import tickets

router = APIRouter(prefix="/v1", tags=["peers"], route_class=Endpoint)


@router.post("/peers:ticket")
def issue_ticket(body: TicketIn, services: ServicesDep, principal: CallerDep) -> Ticket:
    """Issue a ticket for a call to one cell; it is valid for 60 seconds."""
    return tickets.issue(services.store, principal, body, now=services.now())


@router.post("/peers:verify")
def verify_ticket(
    body: VerifyTicketIn, services: ServicesDep, principal: CallerDep
) -> VerifiedTicket:
    """Tell the cell that was called who calls it, and for which run."""
    return tickets.verify(services.store, principal, body.ticket, now=services.now())
