"""Structural tension charts."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel

from knowledge_client.base_model import UtcDatetime
from knowledge_client.models import (
    AddedStepIn,
    Chart,
    ChartChanges,
    ChartIn,
    ChartPage,
    StepIn,
    StepProgressIn,
    TelescopeIn,
)
from knowledge_service.domain.principals import Principal
from knowledge_service.routes.dependencies import CallerDep, KeyHeader, ServicesDep
from knowledge_service.routes.endpoint import Endpoint
from knowledge_service.use_cases import charts, idempotency
from knowledge_service.use_cases.operations import Performer
from knowledge_service.use_cases.services import Services

router = APIRouter(prefix="/v1", tags=["charts"], route_class=Endpoint)


@router.post("/charts")
def create_chart(
    body: ChartIn, services: ServicesDep, principal: CallerDep, key: KeyHeader = None
) -> Chart:
    """Create a chart with a desired outcome, a current reality and action steps."""
    performer = _performer(services, principal, key, "charts", body)
    return charts.create_chart(performer, body, services.now())


@router.get("/charts")
def list_charts(  # noqa: PLR0913 (one argument per filter)
    services: ServicesDep,
    principal: CallerDep,
    scope: str | None = None,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=50)] = 20,
    *,
    completed: bool = False,
    due_before: UtcDatetime | None = None,
) -> ChartPage:
    """List active charts, last changed first; with `completed`, all of them."""
    return charts.list_charts(
        services.store,
        principal,
        scope=scope,
        completed=completed,
        due_before=due_before,
        cursor=cursor,
        limit=limit,
    )


@router.get("/charts/{chart_id}")
def get_chart(chart_id: str, services: ServicesDep, principal: CallerDep) -> Chart:
    """Read a chart with its progress."""
    return charts.get_chart(services.store, principal, chart_id)


@router.post("/charts/{chart_id}:change")
def change_chart(
    chart_id: str,
    body: ChartChanges,
    services: ServicesDep,
    principal: CallerDep,
    key: KeyHeader = None,
) -> Chart:
    """Change the outcome, due date or phase, or add to the current reality."""
    performer = _performer(services, principal, key, f"charts/{chart_id}:change", body)
    return charts.change_chart(performer, chart_id, body, services.now())


@router.post("/charts/{chart_id}/steps")
def add_step(
    chart_id: str,
    body: AddedStepIn,
    services: ServicesDep,
    principal: CallerDep,
    key: KeyHeader = None,
) -> Chart:
    """Add an action step; with `current_reality` it is telescoped, and its chart is returned."""
    performer = _performer(services, principal, key, f"charts/{chart_id}/steps", body)
    return charts.add_step(performer, chart_id, body, services.now())


@router.post("/charts/{chart_id}/steps:remove")
def remove_step(
    chart_id: str, body: StepIn, services: ServicesDep, principal: CallerDep, key: KeyHeader = None
) -> Chart:
    """Remove an action step, and the chart that it was telescoped into."""
    performer = _performer(services, principal, key, f"charts/{chart_id}/steps:remove", body)
    return charts.remove_step(performer, chart_id, body)


@router.post("/charts:progress")
def record_progress(
    body: StepProgressIn, services: ServicesDep, principal: CallerDep, key: KeyHeader = None
) -> Chart:
    """Record progress on an action step."""
    performer = _performer(services, principal, key, "charts:progress", body)
    return charts.record_progress(performer, body, services.now())


@router.post("/charts:complete")
def complete_step(
    body: StepIn, services: ServicesDep, principal: CallerDep, key: KeyHeader = None
) -> Chart:
    """Complete an action step, or a chart by the name of its desired outcome."""
    performer = _performer(services, principal, key, "charts:complete", body)
    return charts.complete_step(performer, body, services.now())


@router.post("/charts:telescope")
def telescope_step(
    body: TelescopeIn, services: ServicesDep, principal: CallerDep, key: KeyHeader = None
) -> Chart:
    """Make a chart of an action step, and return it."""
    performer = _performer(services, principal, key, "charts:telescope", body)
    return charts.telescope_step(performer, body, services.now())


def _performer(
    services: Services, principal: Principal, key: str | None, operation: str, body: BaseModel
) -> Performer:
    repeat = idempotency.bind_key(key, principal, operation, body)
    return Performer(services, principal, repeat)
