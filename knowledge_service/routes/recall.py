"""Recall and its receipts."""

from __future__ import annotations

from fastapi import APIRouter

from knowledge_client.models import FactExplanation, Recalled, RecallIn, Receipt, ReplayResult
from knowledge_service.routes.dependencies import CallerDep, KeyHeader, ServicesDep
from knowledge_service.routes.endpoint import Endpoint
from knowledge_service.use_cases import idempotency, provenance
from knowledge_service.use_cases import recall as recall_use_case
from knowledge_service.use_cases import replay as replay_use_case

router = APIRouter(prefix="/v1", tags=["recall"], route_class=Endpoint)


@router.post("/recall")
def recall(
    body: RecallIn, services: ServicesDep, principal: CallerDep, key: KeyHeader = None
) -> Recalled:
    """Return ranked facts that the caller may see, and the id of the receipt."""
    repeat = idempotency.bind_key(key, principal, "recall", body)
    now = services.now()
    return recall_use_case.recall(services.store, principal, body, now=now, idempotency_key=repeat)


@router.get("/receipts/{receipt_id}:replay")
def replay(receipt_id: str, services: ServicesDep, principal: CallerDep) -> ReplayResult:
    """Repeat a recall on what was known then, and compare the results."""
    return replay_use_case.replay(services.store, principal, receipt_id)


@router.get("/receipts/{receipt_id}:diff")
def diff(receipt_id: str, services: ServicesDep, principal: CallerDep) -> ReplayResult:
    """Repeat a recall on what is known now, and list the differences."""
    return replay_use_case.diff(services.store, principal, receipt_id, now=services.now())


@router.get("/receipts/{receipt_id}:explain")
def explain(
    receipt_id: str, fact: str, services: ServicesDep, principal: CallerDep
) -> FactExplanation:
    """Explain why a recall returned a fact, or did not."""
    return replay_use_case.explain(services.store, principal, receipt_id, fact)


@router.get("/receipts/{receipt_id}")
def get_receipt(receipt_id: str, services: ServicesDep, principal: CallerDep) -> Receipt:
    """Read your own receipt, or one of a scope that you were granted to read."""
    return provenance.get_visible_receipt(services.store, principal, receipt_id).receipt
