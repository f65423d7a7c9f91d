"""Read an outbox: a ConfigMap in the operator's namespace with missed calls."""

from __future__ import annotations

from kais import labels
from kais_operator.controllers.base import Controller, Observation
from kais_operator.controllers.outbox.decide import outbox
from kais_operator.planning.plan import ObjectRef
from kais_operator.ports import World

KIND = "Outbox"
"""The kind of the work queue's keys; the object is a ConfigMap, see `outbox.SELECTOR`."""


async def observe_outbox(world: World, ref: ObjectRef) -> Observation | None:
    """Read the ConfigMap; None when it is gone, is not an outbox, or is in another namespace."""
    if ref.namespace != world.placement.operator_namespace:
        return None
    body = await world.cluster.get(ObjectRef("ConfigMap", ref.namespace, ref.name))
    carried = (body or {}).get("metadata", {}).get("labels") or {}
    if body is None or carried.get(labels.ROLE) != labels.ROLE_OUTBOX:
        return None
    return Observation(None, outbox.OutboxObserved(body))


CONTROLLER = Controller(KIND, observe_outbox, outbox.decide_outbox)
