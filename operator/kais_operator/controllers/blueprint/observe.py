"""Read a Blueprint with its revisions, and which deletable revisions are in use."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kais import labels, names
from kais.conditions import ConditionType
from kais.resources.blueprint import Blueprint
from kais.resources.blueprint_revision import BlueprintRevision
from kais_operator.controllers.base import Controller, Observation
from kais_operator.controllers.blueprint.decide import blueprint as decisions
from kais_operator.controllers.blueprint.decide import canary_rollout, revision_history
from kais_operator.controllers.blueprint.decide.revision_history import Verdict
from kais_operator.controllers.shared.observe import shared_reads, template_checks
from kais_operator.planning import annotation_values
from kais_operator.planning.plan import Body, ObjectRef
from kais_operator.planning.status_and_events import InvalidObject
from kais_operator.ports import World
from knowledge_client import errors, models

_LOG = logging.getLogger(__name__)
_ENDED = ("Succeeded", "Failed")


async def observe_blueprint(world: World, ref: ObjectRef) -> Observation | None:
    """Read the inputs of the decision; None when neither Blueprint nor revisions are left."""
    body = await world.cluster.get(ref)
    revisions = await _revisions(world, ref)
    if body is None:
        if not revisions:
            return None
        in_use = await _in_use(world, ref)
        return Observation(None, decisions.BlueprintObserved(None, revisions, in_use=in_use))
    blueprint = shared_reads.parse_resource(Blueprint, body)
    if isinstance(blueprint, InvalidObject):
        return Observation(body, blueprint)
    try:
        revisions, number, is_name_taken = await _numbered(world, blueprint, revisions)
    except errors.KnowledgeError as exc:
        return Observation(body, await _unnumbered(world, blueprint, exc))
    count = max(len(revisions), len({number, *(r.spec.revision for r in revisions)}))
    may_collect = count > blueprint.spec.revision_history_limit
    observed = decisions.BlueprintObserved(
        blueprint,
        revisions,
        number,
        await _verdicts(world, blueprint, revisions, number),
        await _in_use(world, ref) if may_collect else None,
        world.sync_state.blueprint_stats(ref.namespace, ref.name),
        world.sync_state.unavailable_reason(),
        is_name_taken=is_name_taken,
        canary_counts=await _canary_counts(world, blueprint, revisions, number),
    )
    return Observation(body, observed)


async def _canary_counts(
    world: World, blueprint: Blueprint, revisions: Sequence[BlueprintRevision], number: int
) -> tuple[models.CanaryCounts, ...] | None:
    """Count the runs of the canary; None without one, and while the ledger does not answer."""
    current = canary_rollout.running(blueprint, revisions, present=number)
    if current is None:
        return None
    metadata = blueprint.metadata
    try:
        stats = await world.knowledge.blueprint_stats(
            metadata.namespace, metadata.name, canary=current.revision, since=current.since
        )
    except errors.KnowledgeError as exc:
        ref = ObjectRef(blueprint.kind, metadata.namespace, metadata.name)
        _LOG.warning("%s: the runs of its canary are not counted: %s", ref, exc)
        return None
    return stats.canary


async def _unnumbered(
    world: World, blueprint: Blueprint, exc: errors.KnowledgeError
) -> decisions.BlueprintObserved:
    """Describe a Blueprint whose first number waits for the ledger."""
    metadata = blueprint.metadata
    return decisions.BlueprintObserved(
        blueprint,
        verdicts={
            0: await template_checks.verdict_of(world, blueprint.spec, namespace=metadata.namespace)
        },
        stats=world.sync_state.blueprint_stats(metadata.namespace, metadata.name),
        store_problem=world.sync_state.unavailable_reason(),
        unnumbered=(
            "its first revision waits for the knowledge service, which knows the revisions that "
            f"Blueprints of this name had before: {exc}"
        ),
    )


async def _numbered(
    world: World, blueprint: Blueprint, revisions: tuple[BlueprintRevision, ...]
) -> tuple[tuple[BlueprintRevision, ...], int, bool]:
    """Return all revisions, the present spec's number, and whether its name is taken.

    A revision that lost its labels is not listed, but is found when its number is to be used.

    Raises:
        KnowledgeError: Only the ledger knows the last number, and it does not answer.
    """
    metadata = blueprint.metadata
    ledger: int | None = None
    while True:
        present = revision_history.revision_of_spec(blueprint.spec, revisions)
        if present is not None:
            return revisions, present.spec.revision, False
        ref = ObjectRef(blueprint.kind, metadata.namespace, metadata.name)
        if ledger is None:
            is_needed = revision_history.needs_ledger(blueprint, revisions)
            ledger = await _last_in_ledger(world, ref, is_needed=is_needed)
        number = revision_history.next_number(blueprint, revisions, ledger=ledger)
        name = names.revision_name(metadata.name, number)
        body = await world.cluster.get(ObjectRef("BlueprintRevision", metadata.namespace, name))
        if body is None or body["metadata"].get("deletionTimestamp"):
            return revisions, number, False
        revision = shared_reads.parse_resource(BlueprintRevision, body)
        if not isinstance(revision, BlueprintRevision) or revision.spec.blueprint != metadata.name:
            return revisions, number, True
        revisions = (*revisions, revision)


async def _revisions(world: World, ref: ObjectRef) -> tuple[BlueprintRevision, ...]:
    selector = f"{labels.BLUEPRINT}={names.label_value(ref.name)}"
    bodies = await world.cluster.list("BlueprintRevision", ref.namespace, labels=selector)
    parsed = [shared_reads.parse_resource(BlueprintRevision, body) for body in bodies]
    readable = [r for r in parsed if isinstance(r, BlueprintRevision)]
    return tuple(r for r in readable if r.spec.blueprint == ref.name and not r.is_deleting)


async def _verdicts(
    world: World, blueprint: Blueprint, revisions: Sequence[BlueprintRevision], number: int
) -> dict[int, Verdict]:
    """Compile the present spec, and then older revisions until one is good."""
    namespace = blueprint.metadata.namespace
    verdicts = {
        number: await template_checks.verdict_of(world, blueprint.spec, namespace=namespace)
    }
    last_served = revision_history.last_served(blueprint)
    order = revision_history.order_to_compile(revisions, present=number, annotated=last_served)
    for revision in order:
        if any(verdict.is_good for verdict in verdicts.values()):
            break
        if revision.spec.revision not in verdicts:
            verdict = await template_checks.verdict_of(world, revision.spec, namespace=namespace)
            verdicts[revision.spec.revision] = verdict
    return verdicts


async def _last_in_ledger(world: World, ref: ObjectRef, *, is_needed: bool) -> int:
    """Return the highest number in the ledger, 0 without one; read only before numbering.

    Raises:
        KnowledgeError: The ledger does not answer, and it is needed.
    """
    name = models.BlueprintName(namespace=ref.namespace, name=ref.name)
    try:
        stats = await world.knowledge.stats_batch(models.StatsIn(blueprints=(name,)))
    except errors.KnowledgeError as exc:
        if is_needed:
            raise
        _LOG.warning("%s is numbered without the ledger: %s", ref, exc)
        return 0
    return next((statistics.last_revision or 0 for statistics in stats.blueprints), 0)


async def _in_use(world: World, ref: ObjectRef) -> frozenset[int]:
    """Return the numbers to which an instance, a mission or a running pod refers."""
    selector = f"{labels.BLUEPRINT}={names.label_value(ref.name)}"
    instances = await world.cluster.list("BlueprintInstance", ref.namespace)
    missions = await world.cluster.list("Mission", ref.namespace, labels=selector)
    pods = await world.cluster.list("Pod", ref.namespace, labels=selector)
    numbers = [_labelled(body) for body in missions]
    numbers += [
        _labelled(pod) for pod in pods if (pod.get("status") or {}).get("phase") not in _ENDED
    ]
    for instance in instances:
        reference = instance["spec"]["blueprintRef"]
        if reference["name"] == ref.name:
            numbers += [_labelled(instance), reference.get("revision")]
    return frozenset(number for number in numbers if number is not None)


def _labelled(body: Body) -> int | None:
    return annotation_values.parse_digits(
        (body["metadata"].get("labels") or {}).get(labels.REVISION)
    )


CONTROLLER = Controller(
    "Blueprint",
    template_checks.reporting_unavailable(observe_blueprint),
    shared_reads.decide_or_report_invalid(decisions.decide_blueprint, summary=ConditionType.READY),
)
