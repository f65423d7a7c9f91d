"""Usage of facts, reported by callers."""

from __future__ import annotations

from fastapi import APIRouter

from knowledge_client.models import UsageCounted, UsageIn
from knowledge_service.routes.dependencies import CallerDep, KeyHeader, ServicesDep
from knowledge_service.routes.endpoint import Endpoint
from knowledge_service.use_cases import idempotency, usage

router = APIRouter(prefix="/v1", tags=["usage"], route_class=Endpoint)


@router.post("/usage")
def count_usage(
    body: UsageIn, services: ServicesDep, principal: CallerDep, key: KeyHeader = None
) -> UsageCounted:
    """Count uses of facts, with the caller's home as the observer."""
    return usage.count_usage(
        services.store, principal, body, idempotency.bind_key(key, principal, "usage", body)
    )
