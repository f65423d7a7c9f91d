"""Whether the process lives, whether the store answers, and what Prometheus wants to know."""

from __future__ import annotations

from fastapi import APIRouter, Response

from knowledge_client.models import Health
from knowledge_service import metrics
from knowledge_service.errors import StoreUnavailable
from knowledge_service.routes.dependencies import ServicesDep

router = APIRouter(tags=["health"])


@router.get("/healthz")
def healthz() -> Health:
    """Say that the process answers; the store's state is `/readyz`."""
    return Health(status="ok")


@router.get("/readyz", responses={503: {"model": Health}})
@router.get("/health", responses={503: {"model": Health}})
def readyz(services: ServicesDep, response: Response) -> Health:
    """Say `ok` only when the store answers; 503 with the reason otherwise."""
    try:
        services.store.check()
    except StoreUnavailable as exc:
        response.status_code = 503
        return Health(status="unavailable", detail=exc.detail)
    return Health(status="ok")


@router.get("/metrics", include_in_schema=False)
def metrics_text(services: ServicesDep) -> Response:
    """Return the counters."""
    return Response(services.metrics.render(), media_type=metrics.CONTENT_TYPE)
