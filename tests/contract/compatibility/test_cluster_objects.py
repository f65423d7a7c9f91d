"""Objects that an earlier version left in a cluster: the operator goes on where that one stopped.

`record_memory_cluster.py` says how they were made and what each Mission was at.
"""

from __future__ import annotations

import json
from typing import Any

from kais import labels
from kais_operator.planning.plan import Body, ObjectRef
from tests.contract.compatibility.record_memory_cluster import (
    NAMESPACE,
    end,
    frozen_world,
    run,
    settle,
)
from tests.fakes import teams
from tests.fakes.cluster import ref_of
from tests.fakes.world import FakeWorld

ENDED = {"use-ended", "succeeded", "extracting", "failed", "aborted"}
ATTEMPTS_AT_WORK = {"running": 1, "second-attempt": 2, "use-running": 1, "again": 1}
NEXT_ATTEMPT = "between-jobs"
"""Its first attempt ended while no operator looked, so its second is due."""
REWRITTEN = frozenset({"running", "use-running", "reviewed", "round"})
"""Missions that this version writes anew although nothing happened, in `kais.io/attempts` alone.

It records when the attempt of a Task started, and that its work is done and waits for a review
(record 118), and leaves out a check that has no result yet.
"""
HELD_BACK = frozenset({"suspended"})
"""Missions that get `kais.io/held-until`, from which their `startDeadline` will count."""


def names_of(fake: FakeWorld, kind: str) -> set[str]:
    return {ref.name for ref in fake.cluster.refs(kind)}


def mission(fake: FakeWorld, name: str) -> Body:
    return fake.cluster.read(ObjectRef("Mission", NAMESPACE, name))


def run_ids(fake: FakeWorld) -> dict[str, str | None]:
    return {
        name: mission(fake, name)["metadata"]["annotations"].get(labels.RUN_ID)
        for name in names_of(fake, "Mission")
    }


def without_texts(status: Body) -> Body:
    """Return a status that only says whether there is a message: a version may reword it."""
    conditions = [
        {**condition, "message": bool(condition.get("message"))}
        for condition in status.get("conditions") or ()
    ]
    texts = {"message": bool(status.get("message")), "conditions": conditions}
    if "display" in status:
        # The columns MODEL and COST of cells without a mind used to show an image and a dash.
        texts["display"] = {
            name: text for name, text in status["display"].items() if name not in ("model", "cost")
        }
    return {**status, **texts}


def content(fake: FakeWorld) -> dict[str, Any]:
    """Give every object but the namespaces, without texts and who wrote it when."""
    result = {}
    for ref in fake.cluster.refs():
        body = fake.cluster.read(ref)
        body["metadata"].pop("resourceVersion")
        if "status" in body:
            body["status"] = without_texts(body["status"])
        for condition in (body.get("status") or {}).get("conditions") or ():
            # An operator that has just started registers every cell again, which is a turn.
            condition.pop("lastTransitionTime", None)
        if ref.kind not in ("Namespace", "Event"):
            result[f"{ref.kind}/{ref.name}"] = body
    return result


async def taken_over() -> tuple[FakeWorld, FakeWorld]:
    """Give the recorded world, and the same one after the operator has settled it."""
    fake = frozen_world()
    await settle(fake)
    return frozen_world(), fake


async def test_no_object_of_an_earlier_version_is_made_anew_or_rewritten() -> None:
    later_world, now = await taken_over()
    initial_state, final_state = content(later_world), content(now)
    changed = {name for name in initial_state if final_state.get(name) != initial_state[name]}
    assert changed - {f"Mission/{NEXT_ATTEMPT}"} == {
        f"Mission/{name}" for name in REWRITTEN | HELD_BACK
    }
    for name in REWRITTEN | HELD_BACK:
        annotation = labels.HELD_UNTIL if name in HELD_BACK else labels.ATTEMPTS
        for state in (initial_state, final_state):
            state[f"Mission/{name}"]["metadata"]["annotations"].pop(annotation, None)
        assert final_state[f"Mission/{name}"] == initial_state[f"Mission/{name}"]
    created = final_state.keys() - initial_state.keys()
    assert created == {f"Job/{NEXT_ATTEMPT}-a2", f"ConfigMap/{NEXT_ATTEMPT}-a2-knowledge"}
    uids = {name: body["metadata"]["uid"] for name, body in initial_state.items()}
    assert {name: final_state[name]["metadata"]["uid"] for name in uids} == uids
    others = _NEXT | REWRITTEN | HELD_BACK
    assert {verb for verb, ref in now.cluster.writes if ref.name not in others} <= {"status"}


_NEXT = {NEXT_ATTEMPT, f"{NEXT_ATTEMPT}-a2", f"{NEXT_ATTEMPT}-a2-knowledge"}


async def test_no_mission_of_an_earlier_version_begins_twice() -> None:
    later_world, now = await taken_over()
    assert run_ids(now) == run_ids(later_world)
    assert set(now.knowledge.runs) == set(later_world.knowledge.runs)
    jobs = names_of(now, "Job") - names_of(later_world, "Job")
    assert jobs == {f"{NEXT_ATTEMPT}-a2"}
    for name in names_of(later_world, "Mission") - {NEXT_ATTEMPT}:
        assert (
            mission(now, name)["status"]["attempt"]
            == mission(later_world, name)["status"]["attempt"]
        )
    # The commands of a round end with the operator that started them: the round is asked again,
    # and the pause before the next round is kept.
    assert {command.mission.name for command in now.containers.started} == {"round"}


async def test_ended_missions_of_an_earlier_version_stay_as_they_ended() -> None:
    later_world, now = await taken_over()
    for name in ENDED:
        ended_now, ended_then = (mission(fake, name)["status"] for fake in (now, later_world))
        assert without_texts(ended_now) == without_texts(ended_then), name
    closed = {run_id: run for run_id, run in later_world.knowledge.runs.items() if run.outcome}
    assert len(closed) == len(ENDED) + 1  # and the first run of the mission that was run again
    assert {run_id: now.knowledge.runs[run_id] for run_id in closed} == closed
    assert "start_extraction" not in now.knowledge.calls
    assert now.knowledge.extractions == later_world.knowledge.extractions


async def test_an_extraction_that_an_earlier_version_waited_for_is_noted_when_it_is_done() -> None:
    fake = frozen_world()
    await settle(fake)
    (pending,) = (
        key
        for key, extraction in fake.knowledge.extractions.items()
        if extraction.state == "pending"
    )
    model_copy = fake.knowledge.extractions[pending].model_copy(update={"state": "done"})
    fake.knowledge.extractions[pending] = model_copy
    fake.clock.advance(60)
    await settle(fake)
    ref = ObjectRef("Mission", NAMESPACE, "extracting")
    assert teams.condition(fake, "KnowledgeExtracted", ref)[0] == "True"


async def test_what_ran_under_an_earlier_version_ends_and_is_recorded_under_its_run() -> None:
    later_world, fake = await taken_over()
    for name, attempt in {**ATTEMPTS_AT_WORK, NEXT_ATTEMPT: 2}.items():
        run(fake, name, attempt)
        end(fake, name, 0, "two pods explained", attempt)
    record = {"attempt": 1, "verdict": "approve", "feedback": "well done"}
    annotate(fake, "reviewed", labels.REVIEW, json.dumps(record))
    fake.containers.end("built")
    await settle(fake)
    ended = {**ATTEMPTS_AT_WORK, NEXT_ATTEMPT: 2, "reviewed": 1, "round": 1}
    for name, attempt in ended.items():
        status = mission(fake, name)["status"]
        assert (status["outcome"], status["attempt"]) == ("Succeeded", attempt), (name, status)
        recorded = fake.knowledge.runs[str(run_ids(later_world)[name])]
        assert (recorded.outcome, recorded.attempts, recorded.mission) == (
            "Succeeded", attempt, name,
        )  # fmt: skip
    assert set(fake.knowledge.runs) == set(later_world.knowledge.runs)
    use = fake.cluster.read(ObjectRef("BlueprintInstance", NAMESPACE, "use-running"))
    assert use["status"]["outcome"] == "Succeeded"


async def test_a_pause_between_rounds_of_an_earlier_version_is_kept_and_then_ends() -> None:
    fake = frozen_world()
    await settle(fake)
    fake.clock.advance(20)
    await settle(fake)
    status = mission(fake, "between-rounds")["status"]
    assert (status["phase"], status["attempt"]) == ("Running", 2)
    (command,) = (c for c in fake.containers.started if c.mission.name == "between-rounds")
    assert command.argv == ("/app/check",)


async def test_what_an_earlier_version_held_back_begins_once_nothing_holds_it() -> None:
    later_world, fake = await taken_over()
    fake.cluster.put(teams.team("absent"))
    annotate(fake, "suspended", labels.RECONCILE, None)
    await settle(fake)
    for name in ("waiting", "suspended"):
        assert mission(fake, name)["status"]["attempt"] == 1
        (job,) = (ref for ref in fake.cluster.refs("Job") if ref.name.startswith(f"{name}-"))
        run_id = fake.cluster.read(job)["metadata"]["annotations"][labels.RUN_ID]
        assert run_id == run_ids(fake)[name]
        assert run_ids(later_world)[name] in (None, run_id)


async def test_a_deleted_namespace_of_an_earlier_version_goes() -> None:
    fake = frozen_world()
    for kind in ("Mission", "Formation", "BlueprintInstance", "KnowledgeScope"):
        for ref in fake.cluster.refs(kind):
            fake.cluster.remove(ref)
    await settle(fake)
    assert [ref for kind in ("Mission", "KnowledgeScope") for ref in fake.cluster.refs(kind)] == []


def annotate(fake: FakeWorld, name: str, annotation: str, value: str | None) -> None:
    ref = ref_of(mission(fake, name))
    fake.cluster.edit(ref, {"metadata": {"annotations": {annotation: value}}})
