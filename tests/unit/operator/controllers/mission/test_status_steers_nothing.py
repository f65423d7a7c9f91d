"""Whatever the status of a Mission says, its next writes are the same: status tells, no more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from kais_operator.controllers.mission.observe import mission
from kais_operator.planning.plan import Action, EmitEvent, PatchMetadata
from tests.fakes import teams
from tests.fakes.teams import MISSION
from tests.fakes.world import FakeWorld


def conditions(status: str, reason: str) -> list[dict[str, Any]]:
    return [
        {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": "somebody wrote this",
            "lastTransitionTime": "2020-01-01T00:00:00Z",
        }
        for type_ in ("Started", "ChecksPassed", "KnowledgeExtracted", "Recorded", "Succeeded")
    ]


FORGERIES: dict[str, dict[str, Any]] = {
    "a status that was wiped": {},
    "a refusal that nobody met": {"conditions": conditions("False", "ApplyFailed")},
    "a success that nobody saw": {
        "conditions": conditions("True", "Extracted"),
        "phase": "Succeeded",
        "outcome": "Succeeded",
        "attempt": 1,
        "startedAt": "2020-01-01T00:00:00Z",
        "finishedAt": "2020-01-01T00:00:00Z",
    },
}


async def new() -> FakeWorld:
    return await teams.ready_world(teams.work(startDeadline="1m"))


async def overdue() -> FakeWorld:
    fake = await new()
    await teams.pass_(fake)
    fake.cluster.vanish(teams.job_ref())
    fake.clock.advance(120)
    return fake


async def just_ended() -> FakeWorld:
    fake = await teams.started()
    teams.succeed(fake)
    return fake


async def recorded() -> FakeWorld:
    fake = await just_ended()
    await teams.settle(fake)
    return fake


STAGES: dict[str, Callable[[], Awaitable[FakeWorld]]] = {
    "before its run": new,
    "past its start deadline": overdue,
    "while an attempt runs": teams.started,
    "when its Job has ended": just_ended,
    "when all is recorded": recorded,
}


async def writes(fake: FakeWorld) -> list[Action]:
    observation = await mission.CONTROLLER.observe(fake.world, MISSION)
    assert observation is not None
    plan = mission.CONTROLLER.decide(observation.observed, fake.clock.now())
    return [
        replace(action, resource_version="") if isinstance(action, PatchMetadata) else action
        for action in plan.actions
        if not isinstance(action, EmitEvent)
    ]


@pytest.mark.parametrize("forged", FORGERIES.values(), ids=FORGERIES)
@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
async def test_a_forged_status_changes_no_write(
    stage: Callable[[], Awaitable[FakeWorld]], forged: dict[str, Any]
) -> None:
    fake = await stage()
    expected = await writes(fake)
    fake.cluster.set_status(MISSION, forged)
    assert await writes(fake) == expected
