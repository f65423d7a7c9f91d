"""A mission whose team goes before it, with the store away: its run is closed where it was opened.

So it is when a namespace is deleted: nothing says any more where the team stood, but the ledger.
"""

from __future__ import annotations

from kais_operator.controllers.outbox import observe as outbox
from kais_operator.planning.plan import ObjectRef
from tests.fakes import teams
from tests.fakes.outbox_names import kept_as
from tests.fakes.world import FakeWorld, fake_world

HOME = "realm:demo/formation:elsewhere"


async def test_a_run_is_closed_in_its_own_scope_when_its_formation_is_gone() -> None:
    fake = await _deleted_without_team()
    (run_id,) = fake.knowledge.runs
    fake.knowledge.away = False
    reference = ObjectRef("ConfigMap", "kais-system", kept_as(run_id))
    await fake.step(outbox.CONTROLLER, ObjectRef("Outbox", "kais-system", reference.name))
    run = fake.knowledge.runs[run_id]
    assert (run.scope, run.outcome) == (HOME, "Cancelled")
    assert reference not in fake.cluster.refs()


async def test_a_run_of_another_mission_is_left_as_it_is() -> None:
    fake = await _deleted_without_team()
    (run_id,) = fake.knowledge.runs
    fake.knowledge.runs[run_id] = fake.knowledge.runs[run_id].model_copy(
        update={"mission": "another"}
    )
    fake.knowledge.away = False
    key = ObjectRef("Outbox", "kais-system", kept_as(run_id))
    await fake.step(outbox.CONTROLLER, key)
    assert fake.knowledge.runs[run_id].outcome is None
    assert ObjectRef("ConfigMap", key.namespace, key.name) in fake.cluster.refs()


async def _deleted_without_team() -> FakeWorld:
    """Give a world whose mission went with its team while the store was away."""
    fake = fake_world(teams.team(knowledge={"scope": "elsewhere"}), teams.work())
    await teams.settle_team(fake)
    await teams.settle(fake)
    (run,) = fake.knowledge.runs.values()
    assert run.scope == HOME
    fake.knowledge.away = True
    fake.cluster.vanish(teams.FORMATION)
    fake.cluster.remove(teams.MISSION)
    for seconds in (0, 0, 30, 0, 0):
        fake.clock.advance(seconds)
        await teams.pass_(fake)
    assert teams.MISSION not in fake.cluster.refs()
    return fake
