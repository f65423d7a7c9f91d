"""Reads a KnowledgeScope: its namesakes by path, and what the store said of it last."""

from __future__ import annotations

from kais.conditions import Type
from kais.resources.knowledge_scope import KnowledgeScope
from kais_operator.controllers.base import Reconciler, Seen
from kais_operator.controllers.cell.decide import placing
from kais_operator.controllers.knowledge_scope.decide import knowledge_scope as decision
from kais_operator.controllers.knowledge_scope.decide.knowledge_scope import KnowledgeScopeObserved
from kais_operator.controllers.shared.observe import reading
from kais_operator.planning.plan import ObjectRef, PutScope
from kais_operator.ports import World


async def observe_knowledge_scope(world: World, ref: ObjectRef) -> Seen | None:
    """Read a KnowledgeScope and what its decision needs; None when it is gone."""
    body = await world.cluster.get(ref)
    if body is None:
        return None
    declared = reading.read(KnowledgeScope, body)
    if isinstance(declared, reading.Unreadable):
        return Seen(body, declared)
    path = str(placing.scope_path(declared))
    config = decision.config_of(declared)
    others = await reading.declared_scopes(world.cluster, ref.namespace)
    observed = KnowledgeScopeObserved(
        declared=declared,
        others=[other for other in others if other.metadata.name != ref.name],
        is_configured=world.memory.is_configured(path, config),
        refusal=world.memory.refusal(PutScope(path, config).key),
        stats=world.memory.scope_stats(path),
        store_problem=world.memory.store_problem(),
        endpoint=world.placement.knowledge_url,
        operator_namespace=world.placement.operator_namespace,
    )
    return Seen(body, observed)


RECONCILER = Reconciler(
    "KnowledgeScope",
    observe_knowledge_scope,
    reading.deciding(decision.decide_knowledge_scope, summary=Type.READY),
)
