"""A reconciler of Formations whose decision a test chooses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kais_operator.controllers.base import Controller, Observation
from kais_operator.manager.predicates import OwnWriteFilter
from kais_operator.manager.reconciler import Reconciler
from kais_operator.planning.plan import ObjectRef, Plan
from tests.fakes.world import FakeWorld


def reconciler_of(
    fake: FakeWorld,
    decide: Callable[[Any], Plan],
    *,
    kind: str = "Formation",
    backlog_age_s: Callable[[], float] = lambda: 0.0,
    requeue: Callable[[ObjectRef, float], None] = lambda _, __: None,
) -> Reconciler:
    """Return a reconciler whose only controller reads an object and decides by `decide`."""

    async def observe(world: Any, ref: ObjectRef) -> Observation | None:
        body = await world.cluster.get(ref)
        return Observation(body, body) if body else None

    controller = Controller(kind, observe, lambda observed, now: decide(observed))
    return Reconciler(
        fake.world,
        {kind: controller},
        OwnWriteFilter(),
        requeue=requeue,
        backlog_age_s=backlog_age_s,
    )
