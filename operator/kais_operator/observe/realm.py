"""Reads a realm: its namespace and the account that people's tools use there."""

from __future__ import annotations

from kais import labels
from kais_operator.decide import realm
from kais_operator.decide.plan import ObjectRef
from kais_operator.observe.reconcilers import Reconciler, Seen
from kais_operator.ports import World

KIND = "Realm"
"""The kind of the queue's keys; there is no such object. The key's name is the namespace."""


async def observe_realm(world: World, ref: ObjectRef) -> Seen | None:
    """Read what the account of the namespace `ref.name` needs; None in one that is going away."""
    namespace = await world.cluster.get(ObjectRef("Namespace", "", ref.name), fresh=True)
    if namespace is None or _is_going(namespace):
        return None
    uid = namespace["metadata"]["uid"]
    account = await world.cluster.get_child(
        ObjectRef("ServiceAccount", ref.name, labels.USER_ACCOUNT)
    )
    is_registered = account is not None and world.memory.is_registered(
        realm.principal_of(ref.name, account_uid=account["metadata"]["uid"], namespace_uid=uid)
    )
    return Seen(None, realm.RealmObserved(ref.name, uid, account, is_registered))


def _is_going(namespace: dict[str, object]) -> bool:
    metadata, status = namespace["metadata"], namespace.get("status")
    terminating = isinstance(status, dict) and status.get("phase") == "Terminating"
    return terminating or (isinstance(metadata, dict) and "deletionTimestamp" in metadata)


RECONCILER = Reconciler(KIND, observe_realm, realm.decide_realm)
