"""Plan -> port calls, in order; the write half of a pass.

A cluster write that fails ends the pass by its error. A store that does not answer does not: the
rest of the pass's store calls are left out, the cluster actions go on, and the result says so.
One function per action; nothing here decides.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kais import labels
from kais_operator import errors
from kais_operator.apply import injection
from kais_operator.decide import plan as plans
from kais_operator.decide.plan import Body
from kais_operator.ports import World
from knowledge_client import errors as knowledge_errors
from knowledge_client import models

logger = logging.getLogger(__name__)

_FINAL = (
    knowledge_errors.InvalidRequest,
    knowledge_errors.TooLarge,
    knowledge_errors.Conflict,
    knowledge_errors.NotFound,
)
"""Answers that the same call will get again, when the store itself gives them.

A missing right or quota is somebody's to mend, and so is the address of another server.
"""
_WORDS_LIMIT = 2048


@dataclass(frozen=True)
class Executed:
    """What a pass met.

    Attributes:
        store_problem: why a store call failed; the same Plan's store calls are needed again.
        told_store: a store call succeeded; no watch event will say so, so look again at once.
        written: the objects that were written, as the API server now has them.
        wrote: an object was written or deleted.
        met_namesake: a create met an object of that name; the next look says whose it is.
    """

    store_problem: str | None = None
    told_store: bool = False
    written: tuple[Body, ...] = ()
    wrote: bool = False
    met_namesake: bool = False


class _Pass:
    """The running state of one execution."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.store_problem: str | None = None
        self.refusal: str | None = None
        self.told_store = False
        self.written: list[Body] = []
        self.wrote = False
        self.met_namesake = False

    async def do(self, action: plans.Action) -> None:
        if isinstance(action, plans.InjectKnowledge):
            await self._inject(action)
        elif type(action) in _STORE:
            await self._tell(action)
        elif isinstance(action, plans.SetAside):
            await self._set_aside(action)
        elif self._waits_for_store(action):
            logger.debug("left out %s: the store was not told", action)
        elif type(action) in _CLUSTER:
            await self._write(action)
        elif isinstance(action, plans.RunInContainer):
            self.world.containers.run(action)
        elif isinstance(action, plans.RefreshStatistics) and self.store_problem is None:
            self.world.memory.want_fresh(action.namespace, action.blueprint, soon=action.soon)

    async def _write(self, action: plans.Action) -> None:
        try:
            self._note(await _CLUSTER[type(action)](self.world, action))
        except errors.AlreadyExists:
            self.met_namesake = True

    async def _tell(self, action: plans.Action) -> None:
        if self.store_problem is not None:
            return
        try:
            await _STORE[type(action)](self.world, action)
        except knowledge_errors.KnowledgeError as exc:
            self.store_problem = str(exc)
            if isinstance(exc, _FINAL) and exc.problem is not None:
                self.refusal = str(exc)
                self._note_refusal(action)
            return
        self.told_store = True

    def _note_refusal(self, action: plans.Action) -> None:
        if isinstance(action, plans.PutRun | plans.RecordEpisodes | plans.RequestExtraction):
            self.world.memory.note_refusal(action.run_id, self.refusal or "")
        elif isinstance(action, plans.PutScope):
            self.world.memory.note_refusal(action.key, self.refusal or "")

    async def _set_aside(self, action: plans.SetAside) -> None:
        if self.refusal is None:
            return
        logger.warning("%s is set aside, the store refuses it: %s", action.ref, self.refusal)
        words = {labels.REFUSED: self.refusal[:_WORDS_LIMIT]}
        kept = plans.PatchMetadata(action.ref, action.resource_version, annotations=words)
        self._note(await _patch_metadata(self.world, kept))

    async def _inject(self, action: plans.InjectKnowledge) -> None:
        filled = await injection.fill(action, self.world.knowledge, away=self.store_problem)
        if filled.problem is not None:
            logger.warning("no knowledge in %s: %s", filled.name, filled.problem)
        try:
            self._note(await self.world.cluster.create(filled.body))
        except errors.AlreadyExists:
            self.met_namesake = True

    def _note(self, written: Body | None) -> None:
        self.wrote = True
        if written is not None:
            self.written.append(written)

    def _waits_for_store(self, action: plans.Action) -> bool:
        """Keep a finalizer or a record while a store call of the same Plan has failed."""
        if self.store_problem is None:
            return False
        if isinstance(action, plans.Delete):
            return action.after_store
        return isinstance(action, plans.PatchMetadata) and action.finalizers is not None


async def execute(plan: plans.Plan, world: World) -> Executed:
    """Carry out a Plan's actions but its Events, which `announce` writes after the status.

    Raises:
        ClusterError: a write was refused or not answered; later actions were not tried.
        NotLeading: the Lease is lost; nothing was sent.
    """
    running = _Pass(world)
    for action in plan.actions:
        await running.do(action)
    return Executed(
        store_problem=running.store_problem,
        told_store=running.told_store,
        written=tuple(running.written),
        wrote=running.wrote,
        met_namesake=running.met_namesake,
    )


async def announce(plan: plans.Plan, about: Body, world: World) -> None:
    """Write the Plan's Events; one that fails is logged and forgotten, as status tells all."""
    for action in plan.actions:
        if not isinstance(action, plans.EmitEvent):
            continue
        try:
            await world.cluster.emit(
                about, severity=action.type, reason=action.reason, message=action.message
            )
        except errors.OperatorError as exc:
            logger.warning("event %s was not written: %s", action.reason, exc)


# Actions on the cluster


async def _create(world: World, action: plans.Create) -> Body:
    return await world.cluster.create(action.body)


async def _apply(world: World, action: plans.Apply) -> Body:
    return await world.cluster.apply(action.body, uid=action.uid)


async def _delete(world: World, action: plans.Delete) -> Body | None:
    return await world.cluster.delete(action.ref, uid=action.uid)


async def _patch_metadata(world: World, action: plans.PatchMetadata) -> Body:
    patch: Body = {}
    if action.annotations:
        patch["annotations"] = dict(action.annotations)
    if action.labels:
        patch["labels"] = dict(action.labels)
    if action.finalizers is not None:
        patch["finalizers"] = list(action.finalizers)
    if action.owner_references is not None:
        patch["ownerReferences"] = list(action.owner_references)
    return await world.cluster.patch_metadata(
        action.ref, patch, resource_version=action.resource_version
    )


# Actions on the store; each success is remembered, so that no later pass repeats it


async def _register_principal(world: World, action: plans.RegisterPrincipal) -> None:
    await world.knowledge.put_principal(action.principal)
    world.memory.note_registered(action.principal)


async def _put_scope(world: World, action: plans.PutScope) -> None:
    await world.knowledge.put_scope(action.path, action.config)
    world.memory.note_configured(action.path, action.config)


async def _delete_scope(world: World, action: plans.DeleteScope) -> None:
    await world.knowledge.delete_scope(action.path)
    world.memory.note_retired(action.path)


async def _put_run(world: World, action: plans.PutRun) -> None:
    try:
        await _put_where_it_is(world, action)
    except knowledge_errors.Conflict as exc:
        is_another = exc.code == knowledge_errors.Code.CONFLICT
        if is_another and (action.run.outcome is not None or await _is_elsewhere(world, action)):
            raise  # the ledger has another run under this id, so nothing of this one is told
        # The ledger closed this run with another outcome before: that one stands (api.md).
        logger.warning("run %s keeps the outcome it has: %s", action.run_id, exc)
        world.memory.note_run_closed(action.run_id)
    world.memory.note_run_open(action.run_id)
    if action.run.outcome is not None:
        world.memory.note_run_closed(action.run_id)


async def _put_where_it_is(world: World, action: plans.PutRun) -> None:
    """Open or close a run; one that was opened in another scope is closed there.

    Nothing says any more where a team stood that went before its mission, but the ledger.
    """
    try:
        await world.knowledge.put_run(action.run_id, action.run)
    except knowledge_errors.Conflict as exc:
        if action.run.outcome is None or exc.code != knowledge_errors.Code.CONFLICT:
            raise
        known = await _ledgers_word(world, action)
        if known is None or known.scope == action.run.scope:
            raise
        moved = action.run.model_copy(update={"scope": known.scope})
        await world.knowledge.put_run(action.run_id, moved)


async def _ledgers_word(world: World, action: plans.PutRun) -> models.Run | None:
    """Give the run as the ledger has it; None when it has none, or another mission's."""
    try:
        known = await world.knowledge.get_run(action.run_id)
    except knowledge_errors.NotFound:
        return None
    given = (action.run.kind, action.run.namespace, action.run.mission)
    return known if (known.kind, known.namespace, known.mission) == given else None


async def _is_elsewhere(world: World, action: plans.PutRun) -> bool:
    """Whether the run of this id is another namespace's: an annotation may name anybody's."""
    return (await world.knowledge.get_run(action.run_id)).namespace != action.run.namespace


async def _close_run(world: World, action: plans.CloseRun) -> None:
    try:
        run = await world.knowledge.get_run(action.run_id)
    except knowledge_errors.NotFound:
        return
    if action.namespace not in (None, run.namespace):
        logger.warning("run %s is not closed: it is of another namespace", action.run_id)
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
    world.memory.note_run_closed(action.run_id)


async def _record_episodes(world: World, action: plans.RecordEpisodes) -> None:
    await world.knowledge.add_episodes(
        models.EpisodesIn(run_id=action.run_id, episodes=action.episodes)
    )


async def _request_extraction(world: World, action: plans.RequestExtraction) -> None:
    await world.knowledge.start_extraction(
        models.ExtractionIn(run_id=action.run_id, max_facts=action.max_facts)
    )
    world.memory.note_extraction_accepted(action.run_id)


_Tell = Callable[[World, Any], Awaitable[None]]
_Write = Callable[[World, Any], Awaitable[Body | None]]
_CLUSTER: Mapping[type, _Write] = {
    plans.Create: _create,
    plans.Apply: _apply,
    plans.Delete: _delete,
    plans.PatchMetadata: _patch_metadata,
}
_STORE: Mapping[type, _Tell] = {
    plans.RegisterPrincipal: _register_principal,
    plans.PutScope: _put_scope,
    plans.DeleteScope: _delete_scope,
    plans.PutRun: _put_run,
    plans.CloseRun: _close_run,
    plans.RecordEpisodes: _record_episodes,
    plans.RequestExtraction: _request_extraction,
}
