"""Liveness of the process and readiness of the store."""

from __future__ import annotations

import functools
from collections.abc import Callable

import anyio.to_thread
from fastapi import APIRouter, Response

from knowledge_client.models import Health
from knowledge_service.errors import StoreUnavailable
from knowledge_service.routes.dependencies import ServicesDep
from knowledge_service.routes.endpoint import LenientEndpoint

router = APIRouter(tags=["health"], route_class=LenientEndpoint)


@router.get("/healthz", responses={503: {"model": Health}})
async def healthz(services: ServicesDep, response: Response) -> Health:
    """Return `ok` unless only a restart can help; `/readyz` checks the store."""
    return _health(services.readiness.check_alive, response)


@router.get("/readyz", responses={503: {"model": Health}})
@router.get("/health", responses={503: {"model": Health}})
async def readyz(services: ServicesDep, response: Response) -> Health:
    """Return `ok` when the store answers, else 503 with the reason. Writes nothing."""
    check = functools.partial(_health, services.readiness.check, response)
    return await anyio.to_thread.run_sync(check, limiter=services.probes)


def _health(check: Callable[[], None], response: Response) -> Health:
    try:
        check()
    except StoreUnavailable as exc:
        response.status_code = 503
        return Health(status="unavailable", detail=exc.detail)
    return Health(status="ok")
