"""The phase of a Formation: every value is reached, and follows from its cells."""

from __future__ import annotations

import pytest

from kais.resources.formation import FormationPhase
from kais_operator.planning.plan import ObjectRef
from tests.fakes import services, teams
from tests.fakes.teams import FORMATION, status
from tests.fakes.world import FakeWorld, fake_world

CRASHING = services.waiting("CrashLoopBackOff", "back-off 5m0s restarting failed container")


async def team() -> FakeWorld:
    """A team of one service cell without a pod."""
    cell = {"name": "lead", "spec": services.service()}
    fake = fake_world(teams.team(cells=[cell]))
    await teams.settle_team(fake)
    return fake


async def phase(fake: FakeWorld) -> str:
    await teams.settle_team(fake)
    return str(status(fake, FORMATION)["phase"])


def deployment(fake: FakeWorld) -> ObjectRef:
    (ref,) = fake.cluster.refs("Deployment")
    return ref


def annotate(fake: FakeWorld, name: str, value: str | None) -> None:
    fake.cluster.edit(FORMATION, {"metadata": {"annotations": {f"kais.io/{name}": value}}})


async def test_a_formation_passes_through_every_phase() -> None:
    fake = await team()
    observed = [await phase(fake)]
    pod = services.pod(fake, deployment(fake), status=services.ready())
    observed.append(await phase(fake))
    fake.cluster.vanish(pod)
    broken = services.pod(fake, deployment(fake), status=CRASHING)
    observed.append(await phase(fake))
    fake.cluster.vanish(broken)
    last = services.pod(fake, deployment(fake), status=services.ready())
    observed.append(await phase(fake))
    annotate(fake, "scaled-down", "true")
    await teams.settle_team(fake)
    fake.cluster.vanish(last)
    observed.append(await phase(fake))
    annotate(fake, "reconcile", "suspended")
    observed.append(await phase(fake))
    assert observed == ["Pending", "Running", "Failed", "Running", "Completed", "Paused"]
    assert set(observed) == {phase.value for phase in FormationPhase}


@pytest.mark.parametrize("foreign", [None, "idle"])
async def test_one_failed_cell_is_enough(foreign: str | None) -> None:
    cells = [{"name": name, "spec": services.service()} for name in ("lead", foreign) if name]
    fake = fake_world(teams.team(cells=cells))
    await teams.settle_team(fake)
    services.pod(fake, fake.cluster.refs("Deployment")[-1], status=CRASHING)
    assert await phase(fake) == "Failed"
