"""Missions under any order of events: they settle, run once, and keep their outcome."""

import asyncio
from collections.abc import Callable, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes import teams
from tests.fakes.teams import MISSION, job_ref, status
from tests.fakes.world import FakeWorld

Event = Callable[[FakeWorld], None]


def _latest(fake: FakeWorld) -> int | None:
    open_jobs = [
        ref for ref in fake.cluster.refs("Job") if not fake.cluster.read(ref).get("status")
    ]
    return int(open_jobs[-1].name.rpartition("-a")[2]) if open_jobs else None


def _on_job(act: Callable[[FakeWorld, int], object]) -> Event:
    def event(fake: FakeWorld) -> None:
        latest = _latest(fake)
        if latest is not None:
            act(fake, latest)

    return event


def _annotated(name: str, value: str | None) -> Event:
    def event(fake: FakeWorld) -> None:
        if MISSION in fake.cluster.refs():
            fake.cluster.edit(MISSION, {"metadata": {"annotations": {name: value}}})

    return event


def _wipe(fake: FakeWorld) -> None:
    if MISSION in fake.cluster.refs():
        fake.cluster.edit(MISSION, {"status": None})
    fake.memory.forget_told()


def _set_away(fake: FakeWorld, *, away: bool) -> None:
    fake.knowledge.away = away


EVENTS: dict[str, Event] = {
    "runs": _on_job(lambda fake, n: teams.pod(fake, n, status=teams.running())),
    "cannot pull": _on_job(
        lambda fake, n: teams.pod(fake, n, status=teams.waiting("ErrImagePull", "no"))
    ),
    "succeeds": _on_job(lambda fake, n: teams.succeed(fake, "done", n)),
    "fails": _on_job(lambda fake, n: teams.fail(fake, "no", n)),
    "is lost": _on_job(lambda fake, n: teams.end_job(fake, n, condition="Failed")),
    "a minute passes": lambda fake: fake.clock.advance(60),
    "ten minutes pass": lambda fake: fake.clock.advance(600),
    "the store goes": lambda fake: _set_away(fake, away=True),
    "the store is back": lambda fake: _set_away(fake, away=False),
    "status is wiped and the operator restarts": _wipe,
    "it is suspended": _annotated("kais.io/reconcile", "suspended"),
    "it goes on": _annotated("kais.io/reconcile", None),
    "it is aborted": _annotated("kais.io/abort", "enough"),
    "it is deleted": lambda fake: (
        fake.cluster.remove(MISSION) if MISSION in fake.cluster.refs() else None
    ),
}


async def _play(names: Sequence[str]) -> None:
    fake = await teams.ready_world()
    outcomes: list[str] = []
    for name in names:
        EVENTS[name](fake)
        for _ in range(5):
            await teams.pass_(fake)
        _note(fake, outcomes)
    fake.knowledge.away = False
    plan = await teams.settle(fake)
    _note(fake, outcomes)
    assert len(set(outcomes)) <= 1, f"an outcome changed: {outcomes}"
    assert len(fake.knowledge.runs) <= 1
    if outcomes and MISSION in fake.cluster.refs():
        assert status(fake)["outcome"] == outcomes[0]
        (run,) = fake.knowledge.runs.values()
        assert run.outcome == outcomes[0]
        assert _latest(fake) is None, "a Job runs on after the outcome"
    for episodes in fake.knowledge.episodes.values():
        told = [(e.attempt, e.type) for e in episodes]
        assert len(told) == len(set(told)), f"an attempt was told twice: {told}"
    assert plan is None or plan.actions == ()
    assert fake.cluster.refs("Job") == sorted(
        job_ref(n + 1) for n in range(len(fake.cluster.refs("Job")))
    )


def _note(fake: FakeWorld, outcomes: list[str]) -> None:
    if MISSION in fake.cluster.refs():
        carried = fake.cluster.read(MISSION)["metadata"].get("annotations") or {}
        outcomes += [carried["kais.io/outcome"]] if "kais.io/outcome" in carried else []


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(sorted(EVENTS)), max_size=9))
def test_any_history_settles_with_one_run_and_one_outcome(names: list[str]) -> None:
    asyncio.run(_play(names))
