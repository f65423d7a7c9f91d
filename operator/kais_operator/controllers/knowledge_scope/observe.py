"""Read a KnowledgeScope with others of the same namespace, and what the service reported of it."""

from __future__ import annotations

from kais.conditions import ConditionType
from kais.resources.knowledge_scope import KnowledgeScope
from kais.scopes import Scope
from kais_operator.controllers.base import Controller, Observation
from kais_operator.controllers.cell.decide import cell_identity
from kais_operator.controllers.knowledge_scope.decide import knowledge_scope as decision
from kais_operator.controllers.knowledge_scope.decide.knowledge_scope import KnowledgeScopeObserved
from kais_operator.controllers.outbox.decide import outbox
from kais_operator.controllers.shared.observe import shared_reads
from kais_operator.planning.plan import Body, ObjectRef, PutScope
from kais_operator.planning.status_and_events import InvalidObject
from kais_operator.ports import World


async def observe_knowledge_scope(world: World, ref: ObjectRef) -> Observation | None:
    """Read a KnowledgeScope with the inputs of its decision; None when it is gone."""
    body = await world.cluster.get(ref)
    if body is None:
        return None
    declared = shared_reads.parse_resource(KnowledgeScope, body)
    if isinstance(declared, InvalidObject):
        return Observation(body, declared)
    scope = cell_identity.scope_path(declared)
    path = str(scope)
    config = decision.config_of(declared)
    other_scopes = await shared_reads.declared_scopes(world.cluster, ref.namespace)
    observed = KnowledgeScopeObserved(
        declared=declared,
        other_scopes=[scope for scope in other_scopes if scope.metadata.name != ref.name],
        is_configured=world.sync_state.is_configured(path, config),
        refusal=world.sync_state.refusal(PutScope(path, config).key),
        failure=world.sync_state.failure(PutScope(path, config).key),
        stats=world.sync_state.scope_stats(path),
        store_problem=world.sync_state.unavailable_reason(),
        endpoint=world.placement.knowledge_url,
        operator_namespace=world.placement.operator_namespace,
        pending_deletion=await _pending_deletion(world, declared, scope),
    )
    return Observation(body, observed)


async def _pending_deletion(world: World, declared: KnowledgeScope, scope: Scope) -> Body | None:
    """Read the outbox that has yet to delete the scope; None without one.

    Only the deletion of another object puts one there, and of two objects with one path the served
    one is not deleted. So a scope that is configured has none, and the outboxes are not read.
    """
    if declared.is_deleting or declared.is_true(ConditionType.CONFIGURED):
        return None
    outboxes = await world.cluster.list(
        "ConfigMap", world.placement.operator_namespace, labels=outbox.SELECTOR
    )
    pending = (body for body in outboxes if scope in outbox.deleted_scopes(body))
    return next(pending, None)


CONTROLLER = Controller(
    "KnowledgeScope",
    observe_knowledge_scope,
    shared_reads.decide_or_report_invalid(
        decision.decide_knowledge_scope, summary=ConditionType.READY
    ),
)
