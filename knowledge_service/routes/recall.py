"""Recall and its receipts."""

from __future__ import annotations

from fastapi import APIRouter

from knowledge_client.models import Recalled, RecallIn, Receipt
from knowledge_service.errors import NotFound
from knowledge_service.flows import recalling
from knowledge_service.routes.bodies import StrictRoute
from knowledge_service.routes.dependencies import CallerDep, KeyHeader, ServicesDep, once

router = APIRouter(prefix="/v1", tags=["recall"], route_class=StrictRoute)


@router.post("/recall")
def recall(
    body: RecallIn, services: ServicesDep, principal: CallerDep, key: KeyHeader = None
) -> Recalled:
    """Return ranked facts that the caller may see, and the receipt of it."""
    repeat = once(key, principal, "recall", body)
    now = services.clock()
    return recalling.recall(services.store, principal, body, now=now, once=repeat)


@router.get("/receipts/{receipt_id}")
def get_receipt(receipt_id: str, services: ServicesDep, principal: CallerDep) -> Receipt:
    """Read a receipt of one's own, or of a scope that one was granted to read."""
    found = services.store.receipt(receipt_id)
    if found:
        own = found.receipt.principal == principal.name and found.observer == principal.home
        granted = any(reach.covers(found.observer) for reach in principal.view.reaches)
        if own or granted:
            return found.receipt
    raise NotFound(f"receipt {receipt_id} does not exist or is not visible to you")
