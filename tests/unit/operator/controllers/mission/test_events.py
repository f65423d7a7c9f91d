"""Events of a mission: one for each transition, a Warning for what went wrong, words in all."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fakes import teams
from tests.fakes.world import FakeWorld


def _succeeds(fake: FakeWorld) -> None:
    teams.succeed(fake)


def _fails(fake: FakeWorld) -> None:
    teams.fail(fake)


def _runs_out_of_time(fake: FakeWorld) -> None:
    teams.pod(fake, status=teams.running())
    fake.clock.advance(6)


ENDS = {
    "Finished": (_succeeds, "Normal"),
    "TaskFailed": (_fails, "Warning"),
    "TimedOut": (_runs_out_of_time, "Warning"),
}


@pytest.mark.parametrize(("end", "severity", "reason"), [(*v, k) for k, v in ENDS.items()])
async def test_an_end_is_told_once_with_words_and_as_a_warning_when_it_is_bad(
    end: Callable[[FakeWorld], None], severity: str, reason: str
) -> None:
    mission = teams.work(completion={"timeout": "5s", "maxAttempts": 1})
    fake = await teams.started(mission)
    await teams.settle(fake)
    end(fake)
    await teams.settle(fake)
    events = [e for e in fake.cluster.events if e["about"] == teams.MISSION]
    (last,) = [e for e in events if e["reason"] == reason]
    assert last["type"] == severity
    assert all(len(e["message"].split()) > 1 for e in events), events
    for _ in range(3):
        fake.clock.advance(60)
        await teams.pass_(fake)
    assert [e for e in fake.cluster.events if e["about"] == teams.MISSION] == events


async def test_what_waits_is_looked_at_again_and_again_without_an_event() -> None:
    fake = await teams.started()
    teams.pod(fake, status=teams.waiting(teams.MISSING_IMAGE, "no such image"))
    await teams.settle(fake)
    events = list(fake.cluster.events)
    for _ in range(5):
        fake.clock.advance(2)
        await teams.pass_(fake)
    assert fake.cluster.events == events
    assert len({(e["about"], e["reason"], e["message"]) for e in events}) == len(events)
