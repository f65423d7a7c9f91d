"""Read a realm: its namespace, the account for people's tools, and undeclared settings."""

from __future__ import annotations

from kais import labels, scopes
from kais.resources.knowledge_scope import KnowledgeScope
from kais.scopes import Scope
from kais_operator.controllers.base import Controller, Observation
from kais_operator.controllers.cell.decide import cell_identity
from kais_operator.controllers.namespace_account.decide import namespace_account
from kais_operator.controllers.shared.observe import shared_reads
from kais_operator.planning.plan import ObjectRef
from kais_operator.ports import World

KIND = "Realm"
"""The kind of the work queue's keys, for which no object exists; their name is the namespace."""


async def observe_namespace_account(world: World, ref: ObjectRef) -> Observation | None:
    """Read the account of the namespace `ref.name`; None if the namespace is being deleted."""
    namespace = await world.cluster.get(ObjectRef("Namespace", "", ref.name), fresh=True)
    if namespace is None or _is_terminating(namespace):
        return None
    uid = namespace["metadata"]["uid"]
    account = await world.cluster.get_child(
        ObjectRef("ServiceAccount", ref.name, labels.USER_ACCOUNT)
    )
    is_registered = account is not None and world.sync_state.is_registered(
        namespace_account.principal_of(
            ref.name, account_uid=account["metadata"]["uid"], namespace_uid=uid
        )
    )
    undeclared = await _undeclared(world, ref.name)
    return Observation(
        None,
        namespace_account.NamespaceAccountObserved(
            ref.name, uid, account, is_registered, undeclared
        ),
    )


async def _undeclared(world: World, namespace: str) -> frozenset[str]:
    """Return the scopes whose settings no KnowledgeScope declares.

    A KnowledgeScope that is being deleted still declares its scope.
    """
    settled = world.sync_state.configured_below(str(Scope(namespace)))
    if namespace == world.placement.operator_namespace:
        settled |= world.sync_state.configured_below(str(scopes.PLATFORM))
    if not settled:
        return frozenset()
    bodies = await world.cluster.list("KnowledgeScope", namespace)
    declared = [shared_reads.parse_resource(KnowledgeScope, body) for body in bodies]
    if any(not isinstance(parsed, KnowledgeScope) for parsed in declared):
        return frozenset()  # it is unknown which scope the invalid one declares
    return settled - {
        str(cell_identity.scope_path(parsed))
        for parsed in declared
        if isinstance(parsed, KnowledgeScope)
    }


def _is_terminating(namespace: dict[str, object]) -> bool:
    metadata, status = namespace["metadata"], namespace.get("status")
    terminating = isinstance(status, dict) and status.get("phase") == "Terminating"
    return terminating or (isinstance(metadata, dict) and "deletionTimestamp" in metadata)


CONTROLLER = Controller(KIND, observe_namespace_account, namespace_account.decide_namespace_account)
