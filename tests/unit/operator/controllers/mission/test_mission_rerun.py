"""Missions that are run again: a nonce is a run, once, and the runs before it are kept in words."""

from typing import Any

from kais import names
from kais_operator.planning.plan import Body
from tests.fakes import teams
from tests.fakes.teams import MISSION, condition, job_ref, status
from tests.fakes.world import FakeWorld


def annotations(fake: FakeWorld) -> dict[str, str]:
    return dict(fake.cluster.read(MISSION)["metadata"]["annotations"])


def annotate(fake: FakeWorld, **named: Any) -> None:
    fields = {f"kais.io/{name}": value for name, value in named.items()}
    fake.cluster.edit(MISSION, {"metadata": {"annotations": fields}})


async def ended(*bodies: Body) -> FakeWorld:
    fake = await teams.started(*bodies)
    teams.fail(fake, "no such pod")
    await teams.settle(fake)
    teams.succeed(fake, "found", 2)
    await teams.settle(fake)
    return fake


async def again(fake: FakeWorld, nonce: str) -> None:
    annotate(fake, rerun=nonce)
    for _ in range(3):
        await teams.pass_(fake)
    fake.cluster.collect_garbage()
    await teams.settle(fake)


async def test_a_nonce_begins_another_run_from_attempt_one() -> None:
    fake = await ended()
    first = annotations(fake)["kais.io/run-id"]
    fake.clock.advance(60)
    await again(fake, "n1")
    uid = fake.cluster.read(MISSION)["metadata"]["uid"]
    second = annotations(fake)["kais.io/run-id"]
    assert (second, second != first) == (names.run_id(uid, "n1"), True)
    assert fake.cluster.refs("Job") == [job_ref(1)]
    (task,) = fake.cluster.read(job_ref(1))["spec"]["template"]["spec"]["containers"]
    fields = {e["name"]: e["value"] for e in task["env"]}
    assert (fields["KAIS_RUN_ID"], fields["KAIS_ATTEMPT"]) == (second, "1")
    assert fields["KAIS_FEEDBACK"] == ""
    assert status(fake)["acknowledged"] == {"rerun": "n1"}
    assert "outcome" not in status(fake)
    assert status(fake)["startedAt"] == "2026-03-01T12:01:00Z"
    assert fake.cluster.read(MISSION)["metadata"]["finalizers"] == ["kais.io/finalizer"]
    teams.succeed(fake, "found again")
    await teams.settle(fake)
    assert {run_id: run.outcome for run_id, run in fake.knowledge.runs.items()} == {
        first: "Succeeded",
        second: "Succeeded",
    }
    assert set(fake.knowledge.extractions) == {first, second}
    assert [(entry.get("runId"), entry["result"]) for entry in status(fake)["history"]] == [
        (first, "Succeeded: attempt 2: the task succeeded"),
        (None, "the task succeeded"),
    ]


async def test_the_same_nonce_runs_once() -> None:
    fake = await ended()
    await again(fake, "n1")
    teams.succeed(fake)
    await teams.settle(fake)
    annotate(fake, rerun="n1")
    await teams.settle(fake)
    assert len(fake.knowledge.runs) == 2
    assert status(fake)["outcome"] == "Succeeded"


async def test_a_run_that_goes_on_is_ended_first() -> None:
    fake = await teams.started()
    annotate(fake, rerun="n1")
    await teams.settle(fake)
    assert len(fake.knowledge.runs) == 1
    assert "acknowledged" not in status(fake)
    teams.succeed(fake)
    for _ in range(8):
        await teams.pass_(fake)
    fake.cluster.collect_garbage()
    await teams.settle(fake)
    assert [run.outcome for run in fake.knowledge.runs.values()] == ["Succeeded", None]


async def test_a_rerun_waits_until_the_run_before_is_recorded() -> None:
    fake = await teams.started()
    fake.knowledge.away = True
    teams.succeed(fake)
    annotate(fake, rerun="n1")
    for _ in range(6):
        await teams.pass_(fake)
    assert annotations(fake)["kais.io/outcome"] == "Succeeded"
    fake.knowledge.away = False
    for _ in range(6):
        await teams.pass_(fake)
    assert "kais.io/outcome" not in annotations(fake)
    assert [run.outcome for run in fake.knowledge.runs.values()] == ["Succeeded", None]


async def test_whoever_runs_again_takes_the_abort_back() -> None:
    fake = await teams.started()
    annotate(fake, abort="wrong input")
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Cancelled"
    await again(fake, "n1")
    assert "kais.io/abort" not in annotations(fake)
    teams.succeed(fake)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Succeeded"


async def test_a_nonce_that_is_there_from_the_start_is_the_first_run() -> None:
    tasks = teams.work(metadata={"annotations": {"kais.io/rerun": "n0"}})
    fake = await teams.started(tasks)
    teams.succeed(fake)
    await teams.settle(fake)
    assert len(fake.knowledge.runs) == 1
    assert annotations(fake)["kais.io/rerun-taken"] == "n0"


async def test_a_mission_of_a_use_takes_the_run_id_that_its_use_has() -> None:
    owner = {
        "apiVersion": "kais.io/v1",
        "kind": "BlueprintInstance",
        "name": "doctor",
        "uid": "uid-of-use",
        "controller": True,
    }
    fake = await ended(teams.work(metadata={"ownerReferences": [owner]}))
    annotate(fake, rerun="n1")
    for _ in range(3):
        await teams.pass_(fake)
    assert annotations(fake)["kais.io/run-id"] == names.run_id("uid-of-use", "n1")


async def test_a_mission_made_with_the_run_of_its_nonce_runs_it_once() -> None:
    fake = await teams.ready_world()
    uid = fake.cluster.read(MISSION)["metadata"]["uid"]
    annotate(fake, rerun="n1", **{"run-id": names.run_id(uid, "n1")})
    await teams.settle(fake)
    teams.succeed(fake)
    await teams.settle(fake)
    assert len(fake.knowledge.runs) == 1
    assert status(fake)["outcome"] == "Succeeded"


async def test_a_saved_mission_does_not_run_again_under_another_uid() -> None:
    fake = await ended()
    await again(fake, "n1")
    teams.succeed(fake)
    await teams.settle(fake)
    saved = fake.cluster.read(MISSION)
    fake.cluster.vanish(MISSION)
    fake.cluster.collect_garbage()
    saved["metadata"].pop("uid")
    saved["metadata"].pop("resourceVersion")
    saved.pop("status")
    fake.cluster.put(saved)
    fake.sync_state.clear()
    await teams.settle(fake)
    assert fake.cluster.refs("Job") == []
    assert status(fake)["outcome"] == "Succeeded"
    assert len(fake.knowledge.runs) == 2


async def test_the_words_of_earlier_runs_are_bounded() -> None:
    fake = await ended()
    for number in range(12):
        await again(fake, f"n{number}")
        teams.succeed(fake)
        await teams.settle(fake)
    assert len(status(fake)["history"]) == 11
    assert len(fake.knowledge.runs) == 13
    assert condition(fake, "Succeeded")[0] == "True"


async def test_a_mission_that_is_deleted_does_not_begin_another_run() -> None:
    fake = await teams.started()
    annotate(fake, rerun="n1")
    fake.cluster.remove(MISSION)
    await teams.settle(fake)
    assert MISSION not in fake.cluster.refs()
    assert len(fake.knowledge.runs) == 1


async def test_each_condition_holds_fails_and_holds_again() -> None:
    files = {"name": "files", "type": "fileExists", "paths": ["a"]}
    fake = await teams.started(teams.work(completion={"checks": [files], "maxAttempts": 1}))
    fields: dict[str, list[str]] = {}

    def note() -> None:
        for first_condition in status(fake)["conditions"]:
            known_names = fields.setdefault(first_condition["type"], [])
            if first_condition["status"] != (known_names or [""])[-1]:
                known_names.append(first_condition["status"])

    for number, code in enumerate((0, 1, 0)):
        if number:
            await again(fake, f"n{number}")
            note()
        state = {0: teams.check_ended(fake, code)}
        teams.checked_pod(fake, checks=state, phase="Failed" if code else "Succeeded")
        teams.end_job(fake, condition="Failed" if code else "Complete")
        await teams.settle(fake)
        note()
    for type_ in ("Started", "KnowledgeExtracted", "Recorded"):
        assert fields[type_][:3] == ["True", "False", "True"], (type_, fields)
    for type_ in ("ChecksPassed", "Succeeded"):
        assert [s for s in fields[type_] if s != "Unknown"] == ["True", "False", "True"], fields
