"""Executes a Plan: its actions become calls on the ports, in order.

A failed write to the cluster raises and ends the reconcile. After a failed call to the knowledge
service the other calls are skipped, the cluster actions continue, and the result has the problem.
Only if the record of a run is full, it is closed without more episodes.
`cluster_actions` and `knowledge_actions` implement each action; nothing here decides.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from kais import labels
from kais_operator import errors
from kais_operator.apply import (
    apply_failed_status,
    cluster_actions,
    knowledge_actions,
    knowledge_injection,
)
from kais_operator.planning import plan as plans
from kais_operator.planning.plan import Body
from kais_operator.ports import World
from knowledge_client import errors as knowledge_errors

logger = logging.getLogger(__name__)

_PERMANENT_ERRORS = (
    knowledge_errors.InvalidRequest,
    knowledge_errors.TooLarge,
    knowledge_errors.Conflict,
    knowledge_errors.NotFound,
)
"""Errors that a retry of the same call would get again.

A missing permission, an exhausted quota or a wrong address can be corrected, so calls are retried.
"""
_MAX_REFUSAL_CHARACTERS = 2048
_RefusableCall: TypeAlias = (
    plans.PutRun | plans.RecordEpisodes | plans.RequestExtraction | plans.PutScope
)
_KeyedCall: TypeAlias = _RefusableCall | plans.RegisterPrincipal
_PodAction: TypeAlias = (
    plans.RunInContainer
    | plans.EndCommands
    | plans.SendMessage
    | plans.CancelTask
    | plans.DecideToolCall
)


@dataclass(frozen=True)
class ExecutionResult:
    """The result of one execution.

    Attributes:
        knowledge_problem: why a call to the knowledge service failed; the calls are retried.
        called_knowledge: a call to the service succeeded. No watch event reports that, so the
            object is reconciled again at once.
        written_objects: as the API server returned them.
        wrote: an object was written or deleted.
        has_name_conflict: an object of that name exists; the next reconcile finds out its owner.
        events: Events about refused applies, to emit with those of the Plan.
        refused_apply: why the API server refused an apply for which the Plan has no alternative.
    """

    knowledge_problem: str | None = None
    called_knowledge: bool = False
    written_objects: tuple[Body, ...] = ()
    wrote: bool = False
    has_name_conflict: bool = False
    events: tuple[plans.EmitEvent, ...] = ()
    refused_apply: str | None = None

    def plan_to_report(self, plan: plans.Plan) -> plans.Plan:
        """Return the Plan with the Events of its execution, and a refused apply in its status."""
        status = apply_failed_status.append_refusal(plan.status, self.refused_apply)
        return replace(plan, actions=(*plan.actions, *self.events), status=status)


class _Execution:
    """Executes the actions of one Plan, and collects the result."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.knowledge_problem: str | None = None
        self.refusal: str | None = None
        self.called_knowledge = False
        self.written_objects: list[Body] = []
        self.wrote = False
        self.has_name_conflict = False
        self.events: list[plans.EmitEvent] = []
        self.refused_apply: str | None = None

    async def apply_action(self, action: plans.Action) -> None:
        if isinstance(action, plans.InjectKnowledge):
            await self._inject(action)
        elif type(action) in knowledge_actions.ACTIONS:
            await self._call_knowledge(action)
        elif isinstance(action, plans.SetAside):
            await self._set_aside(action)
        elif self._waits_for_knowledge(action):
            await self._write_annotations(action)
            logger.debug("skipped %s: an earlier call to the knowledge service failed", action)
        elif type(action) in cluster_actions.ACTIONS:
            await self._write(action)
        elif isinstance(action, _PodAction):
            await self._run_pod_action(action)
        elif isinstance(action, plans.RefreshStatistics) and self.knowledge_problem is None:
            self._refresh(action)

    def _refresh(self, action: plans.RefreshStatistics) -> None:
        sync_state = self.world.sync_state
        sync_state.request_refresh(action.namespace, action.blueprint, is_urgent=action.is_urgent)
        if action.extracted is not None:
            sync_state.mark_extraction_counted(action.namespace, action.extracted)

    async def _run_pod_action(self, action: _PodAction) -> None:
        """Start or end background work in a pod: a message to an agent, or a command."""
        if isinstance(action, plans.SendMessage):
            self.world.agents.send(action)
        elif isinstance(action, plans.CancelTask):
            await self.world.agents.cancel(action.call)
        elif isinstance(action, plans.DecideToolCall):
            await self.world.agents.decide(action.call, action.decision)
        elif isinstance(action, plans.RunInContainer):
            self.world.containers.start_command(action)
        else:
            self.world.containers.end_commands(action.mission)

    async def _write(self, action: plans.Action) -> None:
        try:
            self._record_write(await cluster_actions.ACTIONS[type(action)](self.world, action))
        except errors.AlreadyExists:
            self.has_name_conflict = True
        except errors.Invalid as exc:
            if not isinstance(action, plans.Apply) or action.if_invalid is None:
                raise
            logger.warning(
                "an apply is invalid, because another client changed the object: %s", exc
            )
            if not action.if_invalid:
                self.refused_apply = self.refused_apply or str(exc)
            await self._replace(action.if_invalid)

    async def _write_annotations(self, action: plans.Action) -> None:
        """Write the annotations of a patch whose finalizers wait."""
        if isinstance(action, plans.PatchMetadata) and action.annotations:
            await self._write(replace(action, finalizers=None))

    async def _replace(self, actions: Sequence[plans.PatchSpec | plans.EmitEvent]) -> None:
        for action in actions:
            if isinstance(action, plans.EmitEvent):
                self.events.append(action)
            else:
                await self._write(action)

    async def _call_knowledge(self, action: plans.Action) -> None:
        if self.knowledge_problem is not None:
            return
        try:
            await knowledge_actions.ACTIONS[type(action)](self.world, action)
        except knowledge_errors.KnowledgeError as exc:
            if isinstance(action, plans.RecordEpisodes) and _is_record_full(exc):
                logger.warning("run %s is recorded without episodes: %s", action.run_id, exc)
                self.world.sync_state.record_episodes_refusal(action.key, str(exc))
                return
            self.knowledge_problem = str(exc)
            if isinstance(exc, _PERMANENT_ERRORS) and exc.problem is not None:
                self.refusal = str(exc)
            if self.refusal is not None and isinstance(action, _RefusableCall):
                self.world.sync_state.record_refusal(action.key, self.refusal)
            elif isinstance(action, _KeyedCall):
                self.world.sync_state.record_failure(action.key, exc)
            return
        self.called_knowledge = True
        if isinstance(action, _KeyedCall):
            self.world.sync_state.forget_failure(action.key)

    async def _set_aside(self, action: plans.SetAside) -> None:
        if self.refusal is None:
            return
        logger.warning(
            "%s is set aside, the knowledge service rejected it: %s", action.ref, self.refusal
        )
        annotations = {labels.REFUSED: self.refusal[:_MAX_REFUSAL_CHARACTERS]}
        patch = plans.PatchMetadata(action.ref, action.resource_version, annotations=annotations)
        self._record_write(await cluster_actions.patch_metadata(self.world, patch))

    async def _inject(self, action: plans.InjectKnowledge) -> None:
        filled = await knowledge_injection.fill_map(
            action, self.world.knowledge, knowledge_problem=self.knowledge_problem
        )
        if filled.problem is not None:
            logger.warning("no knowledge in %s: %s", filled.name, filled.problem)
        try:
            self._record_write(await self.world.cluster.create(filled.body))
        except errors.AlreadyExists:
            self.has_name_conflict = True

    def _record_write(self, body: Body | None) -> None:
        self.wrote = True
        if body is not None:
            self.written_objects.append(body)

    def _waits_for_knowledge(self, action: plans.Action) -> bool:
        """Return whether an action must wait because a call to the knowledge service failed."""
        if self.knowledge_problem is None:
            return False
        if isinstance(action, plans.Delete):
            return action.waits_for_knowledge
        return isinstance(action, plans.PatchMetadata) and action.finalizers is not None


def _is_record_full(error: knowledge_errors.KnowledgeError) -> bool:
    """Return whether a run may have no more episodes; other quotas say when they are available."""
    is_quota = isinstance(error, knowledge_errors.QuotaExceeded) and error.problem is not None
    return is_quota and error.retry_after_s is None


async def execute(plan: plans.Plan, world: World) -> ExecutionResult:
    """Carry out a Plan's actions except its Events, which `emit_events` writes after the status.

    Raises:
        ClusterError: a write was refused or got no response; later actions were not executed.
        NotLeading: the Lease is lost; nothing was sent.
    """
    execution = _Execution(world)
    for action in plan.actions:
        await execution.apply_action(action)
    return ExecutionResult(
        knowledge_problem=execution.knowledge_problem,
        called_knowledge=execution.called_knowledge,
        written_objects=tuple(execution.written_objects),
        wrote=execution.wrote,
        has_name_conflict=execution.has_name_conflict,
        events=tuple(execution.events),
        refused_apply=execution.refused_apply,
    )


async def emit_events(plan: plans.Plan, involved: Body, world: World) -> None:
    """Write the Plan's Events; a failed one is only logged, because the status says the same."""
    for action in plan.actions:
        if not isinstance(action, plans.EmitEvent):
            continue
        try:
            await world.cluster.emit(
                involved if action.involved is None else action.involved.to_body(),
                severity=action.type,
                reason=action.reason,
                message=action.message,
            )
        except errors.OperatorError as exc:
            logger.log(errors.log_level(exc), "event %s was not written: %s", action.reason, exc)
