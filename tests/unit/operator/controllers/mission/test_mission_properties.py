"""Missions under any order of events: they settle, run once, and keep their outcome."""

import asyncio
from collections.abc import Callable, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from kais_operator.controllers.outbox import observe as outbox
from kais_operator.planning.plan import ObjectRef
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
    fake.sync_state.clear()


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
        messages = [(e.attempt, e.type) for e in episodes]
        assert len(messages) == len(set(messages)), f"an attempt was told twice: {messages}"
    assert plan is None or plan.actions == ()
    assert fake.cluster.refs("Job") == sorted(
        job_ref(n + 1) for n in range(len(fake.cluster.refs("Job")))
    )


def _note(fake: FakeWorld, outcomes: list[str]) -> None:
    if MISSION in fake.cluster.refs():
        carried = fake.cluster.read(MISSION)["metadata"].get("annotations") or {}
        outcomes += [carried["kais.io/outcome"]] if "kais.io/outcome" in carried else []


CHECKS = [
    {"name": "tests", "type": "command", "command": "make", "failPattern": "bad"},
    {"name": "files", "type": "fileExists", "paths": ["a"], "timeoutSeconds": 90},
    {"name": "said", "type": "response", "successPattern": "done"},
]
REVIEW = {"enabled": True, "reviewer": "ana", "criteria": "good"}


def _checked(codes: dict[int, int | None]) -> Event:
    """The work ended; each check ended with its code, or runs still."""

    def event(fake: FakeWorld) -> None:
        latest = _latest(fake)
        if latest is None:
            return
        fake.containers.logs |= {"check-0": "good"}
        states = {
            location: teams.check_running(fake) if code is None else teams.check_ended(fake, code)
            for location, code in codes.items()
        }
        over = None not in codes.values()
        is_good = over and not any(codes.values())
        phase = "Succeeded" if is_good else "Failed"
        teams.checked_pod(fake, latest, checks=states, phase=phase if over else "Running")
        if over:
            teams.end_job(fake, latest, condition="Complete" if is_good else "Failed")

    return event


def _reviewed(verdict: str) -> Event:
    def event(fake: FakeWorld) -> None:
        if MISSION in fake.cluster.refs():
            number = (fake.cluster.read(MISSION).get("status") or {}).get("attempt", 1)
            message = f'{{"attempt": {number}, "verdict": "{verdict}"}}'
            fake.cluster.edit(MISSION, {"metadata": {"annotations": {"kais.io/review": message}}})

    return event


def _lose_job(fake: FakeWorld) -> None:
    for ref in fake.cluster.refs("Job")[:1]:
        fake.cluster.remove(ref)
        fake.cluster.collect_garbage()


JUDGED: dict[str, Event] = {
    name: EVENTS[name]
    for name in (
        "runs", "fails", "is lost", "a minute passes", "the store goes", "the store is back",
        "status is wiped and the operator restarts", "it is aborted", "it is deleted",
    )
} | {
    "checks run": _checked({0: None, 1: None}),
    "a check hangs": _checked({0: 0, 1: None}),
    "checks pass": _checked({0: 0, 1: 0}),
    "a check fails": _checked({0: 1, 1: 0}),
    "a reviewer approves": _reviewed("approve"),
    "a reviewer rejects": _reviewed("reject"),
    "a reviewer mumbles": _annotated("kais.io/review", "hm"),
    "a job is deleted": _lose_job,
    "somebody breaks the record": _annotated("kais.io/attempts", "{"),
    "another run is asked for": _annotated("kais.io/rerun", "n1"),
    "and another": _annotated("kais.io/rerun", "n2"),
    "garbage is collected": lambda fake: fake.cluster.collect_garbage(),
}  # fmt: skip


async def _play_judged(names: Sequence[str]) -> None:
    completion = {"checks": CHECKS, "review": REVIEW}
    fake = await teams.ready_world(teams.work(completion=completion))
    outcomes: dict[str, set[str]] = {}
    for name in names:
        JUDGED[name](fake)
        for _ in range(5):
            await teams.pass_(fake)
        _note_run(fake, outcomes)
    fake.knowledge.away = False
    for _ in range(8):  # a run that is asked for begins, and waits for what is going
        await teams.pass_(fake)
        fake.cluster.collect_garbage()
    plan = await teams.settle(fake)
    _note_run(fake, outcomes)
    for ref in fake.cluster.refs("ConfigMap"):
        if ref.namespace == "kais-system":
            await fake.step(outbox.CONTROLLER, ObjectRef("Outbox", ref.namespace, ref.name))
    assert plan is None or plan.actions == ()
    assert all(len(outcome) <= 1 for outcome in outcomes.values()), (
        f"an outcome changed: {outcomes}"
    )
    for run_id, outcome in outcomes.items():
        assert {fake.knowledge.runs[run_id].outcome} == outcome
    assert len(fake.knowledge.runs) <= 3
    open_runs = [run for run in fake.knowledge.runs.values() if run.outcome is None]
    assert len(open_runs) <= 1, "a run that is over is open in the ledger"
    if MISSION not in fake.cluster.refs():
        assert open_runs == []


def _note_run(fake: FakeWorld, outcomes: dict[str, set[str]]) -> None:
    if MISSION not in fake.cluster.refs():
        return
    carried = fake.cluster.read(MISSION)["metadata"].get("annotations") or {}
    if "kais.io/outcome" in carried:
        outcomes.setdefault(carried["kais.io/run-id"], set()).add(carried["kais.io/outcome"])


@settings(max_examples=60)
@given(st.lists(st.sampled_from(sorted(JUDGED)), max_size=10))
def test_any_history_of_checks_reviews_and_reruns_settles(names: list[str]) -> None:
    asyncio.run(_play_judged(names))


@settings(max_examples=60)
@given(st.lists(st.sampled_from(sorted(EVENTS)), max_size=9))
def test_any_history_settles_with_one_run_and_one_outcome(names: list[str]) -> None:
    asyncio.run(_play(names))
