"""The ledger: runs, episodes, statistics."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from knowledge_client.models import (
    BlueprintName,
    BlueprintStats,
    EpisodePage,
    EpisodesAccepted,
    EpisodesIn,
    Run,
    RunIn,
    RunPage,
    Stats,
    StatsIn,
)
from knowledge_service.domain.run_merge import RunKey, key_of
from knowledge_service.ports import RunListing
from knowledge_service.routes import pagination
from knowledge_service.routes.dependencies import CallerDep, KeyHeader, Namespace, ServicesDep, once
from knowledge_service.routes.endpoint import Endpoint
from knowledge_service.use_cases import authorization, runs

RunId = Annotated[str, Path(max_length=128)]

router = APIRouter(prefix="/v1", tags=["runs"], route_class=Endpoint)


@router.post("/episodes")
def add_episodes(
    body: EpisodesIn, services: ServicesDep, principal: CallerDep, key: KeyHeader = None
) -> EpisodesAccepted:
    """Append episodes to a run that the caller works in; equal ones count as duplicates."""
    repeat = once(key, principal, "episodes", body)
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
    """Read a run's record by `seq`."""
    run = runs.visible_run(services.store, principal, run_id, namespace)
    after = pagination.unseal_number(cursor)
    found = services.store.episodes(key_of(run), after=after, limit=limit + 1)
    page = found[:limit]
    return EpisodePage(
        episodes=page, cursor=pagination.seal(str(page[-1].seq)) if len(found) > limit else None
    )


@router.put("/runs/{run_id}")
def put_run(run_id: RunId, body: RunIn, services: ServicesDep, principal: CallerDep) -> Run:
    """Open a run, add to it, or close it with its outcome."""
    return runs.put_run(services.store, principal, run_id, body)


@router.get("/runs/{run_id}")
def get_run(
    run_id: str, services: ServicesDep, principal: CallerDep, namespace: Namespace = None
) -> Run:
    """Read one run."""
    return runs.visible_run(services.store, principal, run_id, namespace)


@router.get("/runs")
def list_runs(
    services: ServicesDep,
    principal: CallerDep,
    namespace: str | None = None,
    blueprint: str | None = None,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> RunPage:
    """List visible runs, the one opened last first."""
    position = pagination.unseal(cursor)
    before = RunKey(*position.partition(" ")[::2]) if position else None
    if before and services.store.run(before, principal.view) is None:
        raise pagination.none_of_ours()  # where another's run stands in time is not told
    asked = RunListing(principal.view, limit + 1, namespace, blueprint, before=before)
    found = services.store.list_runs(asked)
    page = found[:limit]
    more = pagination.seal(" ".join(key_of(page[-1]))) if len(found) > limit else None
    return RunPage(runs=page, cursor=more)


@router.get("/stats/blueprints/{namespace}/{name}")
def blueprint_stats(
    namespace: str, name: str, services: ServicesDep, principal: CallerDep
) -> BlueprintStats:
    """Count the visible runs of one Blueprint; all zero for one that was never seen."""
    asked = BlueprintName(namespace=namespace, name=name)
    counted = services.store.blueprint_stats([asked], principal.view)[0]
    by_value = services.store.parameter_stats(asked, principal.view)
    return counted.model_copy(update={"parameters": by_value})


@router.post("/stats:batch")
def stats_batch(body: StatsIn, services: ServicesDep, principal: CallerDep) -> Stats:
    """Answer many questions at once, in their order."""
    paths = tuple(authorization.path_of(path, principal, "scopes") for path in body.scopes)
    authorization.readable(paths, principal)
    return Stats(
        blueprints=services.store.blueprint_stats(body.blueprints, principal.view),
        scopes=services.store.scope_stats(paths, principal.view),
    )
