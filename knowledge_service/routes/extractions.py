"""Extractions: requested once per run, done by a background worker."""

from __future__ import annotations

from fastapi import APIRouter

from knowledge_client.models import Extraction, ExtractionIn, ExtractionReplay, ReplayIn
from knowledge_service.routes.dependencies import CallerDep, Namespace, ServicesDep
from knowledge_service.routes.endpoint import Endpoint
from knowledge_service.use_cases import extractions

router = APIRouter(prefix="/v1", tags=["extractions"], route_class=Endpoint)


@router.post("/extractions", status_code=202)
def start_extraction(body: ExtractionIn, services: ServicesDep, principal: CallerDep) -> Extraction:
    """Request the extraction of a closed run; durable once accepted, one per run."""
    accepted = extractions.start_extraction(services.store, principal, body)
    services.wake_extractor()
    return accepted


@router.post("/extractions:replay")
def replay_extraction(
    body: ReplayIn, services: ServicesDep, principal: CallerDep
) -> ExtractionReplay:
    """Ask a model for the facts of a run once more and compare; nothing is stored."""
    return extractions.replay_extraction(services.store, principal, body, services.models)


@router.get("/extractions/{run_id}")
def get_extraction(
    run_id: str, services: ServicesDep, principal: CallerDep, namespace: Namespace = None
) -> Extraction:
    """Read the state of the extraction of a run."""
    return extractions.get_visible_extraction(services.store, principal, run_id, namespace)
