"""Find reservations of costs whose Mission vanished, as one does without its finalizer."""

from __future__ import annotations

from kais_operator.planning import cost_reservation_annotation
from kais_operator.planning.cost_reservation_annotation import Account
from kais_operator.planning.plan import ObjectRef
from kais_operator.ports import World


async def reserved_by_vanished(world: World, account: Account) -> frozenset[str]:
    """Return the runs with an entry on an object whose Mission does not exist any longer."""
    namespace = account.metadata.namespace
    return frozenset(
        [
            entry.run_id
            for entry in cost_reservation_annotation.read(account)
            if await world.cluster.get(ObjectRef("Mission", namespace, entry.mission)) is None
        ]
    )
