"""The actions of a Plan that call the knowledge service, one function for each.

Each success is recorded in the sync state, so that no later reconcile repeats it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kais_operator import trace_scope
from kais_operator.planning import plan as plans
from kais_operator.ports import World
from knowledge_client import errors, models

logger = logging.getLogger(__name__)


async def _register_principal(world: World, action: plans.RegisterPrincipal) -> None:
    await world.knowledge.put_principal(action.principal)
    world.sync_state.mark_registered(action.principal)


async def _put_scope(world: World, action: plans.PutScope) -> None:
    await world.knowledge.put_scope(action.path, action.config)
    world.sync_state.mark_configured(action.path, action.config)


async def _delete_scope(world: World, action: plans.DeleteScope) -> None:
    try:
        await world.knowledge.delete_scope(action.path, erase=True)
    except errors.NotFound as exc:
        if exc.code != errors.ErrorCode.NOT_FOUND:
            raise  # another server answered
    world.sync_state.mark_deleted(action.path)


async def _put_run(world: World, action: plans.PutRun) -> None:
    try:
        await _put_run_in_recorded_scope(world, action)
    except errors.Conflict as exc:
        if exc.code != errors.ErrorCode.CONFLICT:
            # The ledger has closed this run with another outcome, which stands (api.md).
            logger.warning("run %s keeps the outcome it has: %s", action.run_id, exc)
            world.sync_state.mark_run_closed(action.run.namespace, action.run_id)
        elif action.run.outcome is not None:
            raise  # the ledger has another run with this id, so nothing of this one is recorded
        else:
            logger.warning("run %s was opened otherwise: %s", action.run_id, exc)
    world.sync_state.mark_run_open(action.run.namespace, action.run_id)
    if action.run.outcome is not None:
        world.sync_state.mark_run_closed(action.run.namespace, action.run_id)
        if world.run_spans is not None and action.traceparent is not None:
            world.run_spans.record(action.run_id, action.run, action.traceparent)


async def _put_run_in_recorded_scope(world: World, action: plans.PutRun) -> None:
    """Open or close a run; a run that was opened in another scope is closed there.

    If the formation was deleted before its mission, only the ledger knows the scope of the run.
    """
    try:
        with trace_scope.of_run(action.traceparent):
            await world.knowledge.put_run(action.run_id, action.run)
    except errors.Conflict as exc:
        if action.run.outcome is None or exc.code != errors.ErrorCode.CONFLICT:
            raise
        recorded = await _recorded_run(world, action)
        if recorded is None or recorded.scope == action.run.scope:
            raise
        moved = action.run.model_copy(update={"scope": recorded.scope})
        await world.knowledge.put_run(action.run_id, moved)


async def _recorded_run(world: World, action: plans.PutRun) -> models.Run | None:
    """Read the run from the ledger; None if it has none, or one of another mission."""
    try:
        recorded = await world.knowledge.get_run(action.run_id, namespace=action.run.namespace)
    except errors.NotFound:
        return None
    identity = (action.run.kind, action.run.mission)
    return recorded if (recorded.kind, recorded.mission) == identity else None


async def _close_run(world: World, action: plans.CloseRun) -> None:
    try:
        run = await world.knowledge.get_run(action.run_id, namespace=action.namespace)
    except errors.NotFound:
        return
    if action.mission is not None and run.mission not in (None, action.mission):
        logger.warning("run %s is not closed: it is another mission's", action.run_id)
        return
    if run.outcome is None:
        ended = models.RunIn(
            kind=run.kind,
            namespace=run.namespace,
            scope=run.scope,
            outcome=action.outcome.value,
            finished_at=action.finished_at,
        )
        await world.knowledge.put_run(action.run_id, ended)
    world.sync_state.mark_run_closed(run.namespace, action.run_id)


async def _record_episodes(world: World, action: plans.RecordEpisodes) -> None:
    await world.knowledge.add_episodes(
        models.EpisodesIn(
            run_id=action.run_id, namespace=action.namespace, episodes=action.episodes
        )
    )


async def _request_extraction(world: World, action: plans.RequestExtraction) -> None:
    request = models.ExtractionIn(
        run_id=action.run_id, namespace=action.namespace, max_facts=action.max_facts
    )
    with trace_scope.of_run(action.traceparent):
        await world.knowledge.start_extraction(request)
    world.sync_state.mark_extraction_accepted(action.namespace, action.run_id)


_KnowledgeCall = Callable[[World, Any], Awaitable[None]]
ACTIONS: Mapping[type, _KnowledgeCall] = {
    plans.RegisterPrincipal: _register_principal,
    plans.PutScope: _put_scope,
    plans.DeleteScope: _delete_scope,
    plans.PutRun: _put_run,
    plans.CloseRun: _close_run,
    plans.RecordEpisodes: _record_episodes,
    plans.RequestExtraction: _request_extraction,
}
"""The function of each action."""
