"""Read a revision with the compiler's verdict and the statistics of its Blueprint."""

from __future__ import annotations

from kais.conditions import ConditionType
from kais.resources.blueprint_revision import BlueprintRevision
from kais_operator.controllers.base import Controller, Observation
from kais_operator.controllers.blueprint_revision.decide import blueprint_revision as decisions
from kais_operator.controllers.shared.observe import shared_reads, template_checks
from kais_operator.planning.plan import ObjectRef
from kais_operator.planning.status_and_events import InvalidObject
from kais_operator.ports import World


async def observe_blueprint_revision(world: World, ref: ObjectRef) -> Observation | None:
    """Read the inputs of the decision; None when the revision is gone or being deleted."""
    body = await world.cluster.get(ref)
    if body is None or body["metadata"].get("deletionTimestamp"):
        return None
    revision = shared_reads.parse_resource(BlueprintRevision, body)
    if isinstance(revision, InvalidObject):
        return Observation(body, revision)
    observed = decisions.BlueprintRevisionObserved(
        revision,
        await template_checks.verdict_of(world, revision.spec, namespace=ref.namespace),
        world.sync_state.blueprint_stats(ref.namespace, revision.spec.blueprint),
    )
    return Observation(body, observed)


CONTROLLER = Controller(
    "BlueprintRevision",
    template_checks.reporting_unavailable(observe_blueprint_revision),
    shared_reads.decide_or_report_invalid(
        decisions.decide_blueprint_revision, summary=ConditionType.READY
    ),
)
