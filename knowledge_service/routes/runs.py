"""The ledger: runs, episodes, statistics."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from knowledge_client.base_model import UtcDatetime
from knowledge_client.models import (
    BlueprintName,
    BlueprintStats,
    EpisodePage,
    EpisodesAccepted,
    EpisodesIn,
    Run,
    RunDetail,
    RunIn,
    RunPage,
    Stats,
    StatsIn,
)
from knowledge_service.domain.run_reports import key_of
from knowledge_service.routes.dependencies import (
    CallerDep,
    KeyHeader,
    Namespace,
    RecordRunDep,
    ServicesDep,
)
from knowledge_service.routes.endpoint import Endpoint
from knowledge_service.use_cases import idempotency, runs

RunId = Annotated[str, Path(max_length=128)]

router = APIRouter(prefix="/v1", tags=["runs"], route_class=Endpoint)


@router.post("/episodes")
def add_episodes(
    body: EpisodesIn, services: ServicesDep, principal: CallerDep, key: KeyHeader = None
) -> EpisodesAccepted:
    """Append episodes to a run of the caller; equal ones count as duplicates."""
    repeat = idempotency.bind_key(key, principal, "episodes", body)
    return runs.add_episodes(services.store, principal, body, repeat)


@router.get("/runs/{run_id}/episodes")
def list_episodes(
    run_id: str,
    services: ServicesDep,
    principal: CallerDep,
    namespace: Namespace = None,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 200,
) -> EpisodePage:
    """List the episodes of a run by `seq`."""
    return runs.list_episodes(
        services.store, principal, run_id, namespace=namespace, cursor=cursor, limit=limit
    )


@router.put("/runs/{run_id}")
def put_run(
    run_id: RunId,
    body: RunIn,
    services: ServicesDep,
    principal: CallerDep,
    record_run: RecordRunDep,
) -> Run:
    """Open a run, update it, or close it with its outcome."""
    run = runs.put_run(services.store, principal, run_id, body)
    record_run(key_of(run))
    return run


@router.get("/runs/{run_id}")
def get_run(
    run_id: str, services: ServicesDep, principal: CallerDep, namespace: Namespace = None
) -> RunDetail:
    """Read one run, and which facts its agents stored in it."""
    return runs.get_run(services.store, principal, run_id, namespace)


@router.get("/runs")
def list_runs(
    services: ServicesDep,
    principal: CallerDep,
    namespace: str | None = None,
    blueprint: str | None = None,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> RunPage:
    """List visible runs, the most recently opened first."""
    return runs.list_runs(
        services.store,
        principal,
        namespace=namespace,
        blueprint=blueprint,
        cursor=cursor,
        limit=limit,
    )


@router.get("/stats/blueprints/{namespace}/{name}")
def blueprint_stats(  # noqa: PLR0913 (one argument per filter)
    namespace: str,
    name: str,
    services: ServicesDep,
    principal: CallerDep,
    *,
    compare: bool = False,
    by_parameter: Annotated[str | None, Query(max_length=63)] = None,
    canary: Annotated[int | None, Query(ge=1, le=10**9 - 1)] = None,
    since: UtcDatetime | None = None,
) -> BlueprintStats:
    """Count the visible runs of one Blueprint; zeros for an unknown one.

    With `compare`, runs with knowledge are compared with those of the holdout. With `canary`, the
    runs that drew their revision by lot for that revision are counted, if they opened at or after
    `since`.
    """
    blueprint = BlueprintName(namespace=namespace, name=name)
    return runs.blueprint_stats(
        services.store,
        principal,
        blueprint,
        compare=compare,
        by_parameter=by_parameter,
        canary=canary,
        since=since,
    )


@router.post("/stats:batch")
def stats_batch(body: StatsIn, services: ServicesDep, principal: CallerDep) -> Stats:
    """Read statistics of several Blueprints and scopes, in the order of the request."""
    return runs.batch_stats(services.store, principal, body)
