"""Read an instance of a Blueprint with its revision, its rendering, and its children."""

from __future__ import annotations

import functools
import logging
from dataclasses import replace

from kais import labels, names
from kais.conditions import ConditionType, Reason
from kais.resources.blueprint import Blueprint
from kais.resources.blueprint_instance import BlueprintInstance
from kais.resources.blueprint_revision import BlueprintRevision
from kais_operator.controllers.base import Controller, Observation
from kais_operator.controllers.blueprint_instance.decide import blueprint_instance as decisions
from kais_operator.controllers.blueprint_instance.decide import (
    instance_run,
    revision_selection,
    run_recovery,
)
from kais_operator.controllers.blueprint_instance.decide.instance_observed import (
    BlueprintInstanceObserved,
    Choice,
)
from kais_operator.controllers.shared.observe import run_ownership, shared_reads, template_checks
from kais_operator.planning import children
from kais_operator.planning.plan import Body, ObjectRef, run_key
from kais_operator.planning.status_and_events import InvalidObject
from kais_operator.ports import World
from knowledge_client import errors

_BETWEEN = 10
"""Number of revisions read before a breaking one: the default number of kept revisions."""
_LOG = logging.getLogger(__name__)


async def observe_blueprint_instance(world: World, ref: ObjectRef) -> Observation | None:
    """Read the inputs of the decision; None when the instance is gone or being deleted."""
    body = await world.cluster.get(ref)
    if body is None or body["metadata"].get("deletionTimestamp"):
        return None
    stamped = await run_ownership.of_instance(world, body)
    if stamped.problem is not None:
        return _waiting(body, stamped.problem)
    instance = shared_reads.parse_resource(BlueprintInstance, stamped.body)
    if isinstance(instance, InvalidObject):
        return Observation(body, instance)
    mission = await world.cluster.get_child(ObjectRef("Mission", ref.namespace, ref.name))
    is_mission_copied = False
    if mission is not None and run_recovery.is_candidate(instance, mission):
        recorded = await run_ownership.of_mission(world, mission)
        if recorded.problem is not None:
            return _waiting(body, f"{children.ref_of(mission)}: {recorded.problem}")
        is_mission_copied = bool(recorded.copied)
    choice = await _choose(world, instance, mission)
    revision = await _revision(world, instance, choice.number)
    rendering, retry_after = None, None
    if revision is not None:
        rendering, retry_after = await template_checks.rendering_of(world, instance, revision)
    observed = BlueprintInstanceObserved(
        instance,
        choice,
        revision,
        rendering,
        retry_after,
        await world.cluster.get_child(ObjectRef("Formation", ref.namespace, ref.name)),
        mission,
        await _ledger_outcome(world, instance, mission),
        _is_run_recorded(world, instance),
        stamped.copied,
        is_mission_copied,
    )
    return Observation(body, observed)


def _waiting(body: Body, problem: str) -> Observation:
    """Return an instance that waits until the knowledge service says whose run it is."""
    return Observation(body, InvalidObject(body, problem, Reason.STORE_UNAVAILABLE))


async def _choose(world: World, instance: BlueprintInstance, mission: Body | None) -> Choice:
    if revision_selection.follows(instance):
        return await _choose_newer(world, instance, mission)
    if revision_selection.is_pinned(instance):
        return revision_selection.choose(instance, None)
    blueprint = await _blueprint(world, instance)
    if isinstance(blueprint, InvalidObject):
        return revision_selection.unreadable(instance, blueprint.problem)
    return revision_selection.choose(instance, blueprint)


async def _choose_newer(world: World, instance: BlueprintInstance, mission: Body | None) -> Choice:
    blueprint = await _blueprint(world, instance)
    served = None
    if isinstance(blueprint, Blueprint):
        served = revision_selection.served_number(blueprint)
    pinned = revision_selection.pinned_number(instance)
    newer = revision_selection.Newer(served)
    if served not in (None, pinned):
        present = await _revision(world, instance, pinned)
        target = await _revision(world, instance, served)
        newer = revision_selection.Newer(served, present, target)
    outcome = instance_run.outcome_of(instance_run.run_of(instance), mission, None)
    is_running = instance_run.is_running(instance, mission, outcome)
    if not is_running and revision_selection.may_break(instance, newer):
        newer = replace(newer, between=await _between(world, instance, newer))
    return revision_selection.choose_newer(instance, newer, is_running=is_running)


async def _between(
    world: World, instance: BlueprintInstance, newer: revision_selection.Newer
) -> tuple[BlueprintRevision, ...]:
    """Read the revisions that an instance may have missed during its mission, newest first."""
    first = (revision_selection.pinned_number(instance) or 0) + 1
    numbers = range(first, newer.served or 0)[-_BETWEEN:]
    revisions = [await _revision(world, instance, number) for number in reversed(numbers)]
    readable = [revision for revision in revisions if revision is not None]
    namespace = instance.metadata.namespace
    verdict_of = functools.partial(template_checks.verdict_of, world, namespace=namespace)
    return tuple([revision for revision in readable if (await verdict_of(revision.spec)).is_good])


async def _blueprint(world: World, instance: BlueprintInstance) -> Blueprint | InvalidObject | None:
    name = instance.spec.blueprint_ref.name
    body = await world.cluster.get(ObjectRef("Blueprint", instance.metadata.namespace, name))
    return shared_reads.parse_resource(Blueprint, body) if body is not None else None


async def _revision(
    world: World, instance: BlueprintInstance, number: int | None
) -> BlueprintRevision | None:
    if number is None:
        return None
    blueprint = instance.spec.blueprint_ref.name
    name = names.revision_name(blueprint, number)
    ref = ObjectRef("BlueprintRevision", instance.metadata.namespace, name)
    body = await world.cluster.get(ref)
    revision = shared_reads.parse_resource(BlueprintRevision, body) if body is not None else None
    if isinstance(revision, BlueprintRevision) and revision.spec.blueprint == blueprint:
        return revision
    return None


async def _ledger_outcome(
    world: World, instance: BlueprintInstance, mission: Body | None
) -> str | None:
    """Return how a started run ended whose Mission was deleted before its outcome was recorded.

    The run of another instance, whose id a user wrote here, is ignored. If the knowledge service
    does not answer, the run stays open, because knowledge never stops a mission.
    """
    run = instance_run.run_of(instance)
    is_session = instance_run.is_session(instance)
    if run is None or is_session or run.outcome is not None or mission is not None:
        return None
    try:
        namespace = instance.metadata.namespace
        ledger_run = await world.knowledge.get_run(run.run_id, namespace=namespace)
    except errors.NotFound:
        return None
    except errors.KnowledgeError as exc:
        ref = f"{instance.kind}/{instance.metadata.namespace}/{instance.metadata.name}"
        _LOG.warning("%s: run %s is not looked up: %s", ref, run.run_id, exc)
        return None
    return ledger_run.outcome if run_ownership.is_run_of(ledger_run, instance.to_dict()) else None


def _is_run_recorded(world: World, instance: BlueprintInstance) -> bool:
    """Whether the knowledge service has the run; a rejected run is sent again after an hour."""
    ledger_value = instance.metadata.annotations.get(labels.RUN_ID)
    run_id = ledger_value or instance_run.first_run(instance).run_id
    namespace, memory = instance.metadata.namespace, world.sync_state
    refusal = memory.refusal(run_key(namespace, run_id))
    return memory.is_run_open(namespace, run_id) or refusal is not None


CONTROLLER = Controller(
    "BlueprintInstance",
    template_checks.reporting_unavailable(observe_blueprint_instance),
    shared_reads.decide_or_report_invalid(
        decisions.decide_blueprint_instance, summary=ConditionType.READY
    ),
)
