"""Runs that somebody ends or suspends."""

from kais_operator.planning.plan import ObjectRef
from tests.fakes import teams
from tests.fakes.teams import MISSION, condition, job_ref, status
from tests.fakes.world import FakeWorld


def annotate(fake: FakeWorld, **annotations: str) -> None:
    fake.cluster.edit(MISSION, {"metadata": {"annotations": annotations}})


async def test_an_abort_ends_the_attempt_and_is_acknowledged() -> None:
    fake = await teams.started()
    teams.pod(fake, status=teams.running())
    annotate(fake, **{"kais.io/abort": "wrong namespace"})
    await teams.settle(fake)
    reported_status = status(fake)
    assert reported_status["outcome"] == "Cancelled"
    assert reported_status["acknowledged"] == {"abort": "wrong namespace"}
    assert condition(fake, "Succeeded") == (
        "False",
        "Cancelled",
        'kais.io/abort "wrong namespace" ended the mission while attempt 1 ran',
    )
    assert fake.cluster.refs("Job") == []


async def test_an_abort_after_the_end_changes_nothing() -> None:
    fake = await teams.started()
    teams.succeed(fake)
    annotate(fake, **{"kais.io/abort": "late"})
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Succeeded"


async def test_an_abort_waits_no_longer_than_a_moment_for_the_job_of_a_task_that_ended() -> None:
    fake = await teams.started()
    end = {"terminated": {"exitCode": 1, "finishedAt": teams.stamp(fake)}}
    teams.pod(fake, status={"phase": "Failed", **teams.container(end)})
    annotate(fake, **{"kais.io/abort": "stop"})
    await teams.settle(fake)
    assert "outcome" not in status(fake)
    fake.clock.advance(30)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Cancelled"


async def test_a_suspended_mission_lets_the_running_attempt_end_and_starts_no_other() -> None:
    fake = await teams.started()
    annotate(fake, **{"kais.io/reconcile": "suspended"})
    teams.fail(fake)
    await teams.settle(fake)
    assert fake.cluster.refs("Job") == [job_ref(1)]
    state, reason, message = condition(fake, "Succeeded")
    assert (state, reason) == ("Unknown", "Retrying")
    assert message.endswith("no attempt is started while kais.io/reconcile is suspended")


async def test_a_suspended_use_lets_the_running_attempt_end_and_starts_no_other() -> None:
    spec = {"blueprintRef": {"name": "reviews"}}
    use = teams.thing("BlueprintInstance", "use", spec=spec, uid="uid-use")
    owner = {"apiVersion": "kais.io/v1", "kind": "BlueprintInstance", "name": "use"}
    owned = {"ownerReferences": [{**owner, "uid": "uid-use", "controller": True}]}
    fake = await teams.started(use, teams.work(metadata=owned))
    held = ObjectRef("BlueprintInstance", "demo", "use")
    fake.cluster.edit(held, {"spec": {"suspend": True}})
    teams.fail(fake)
    plan = await teams.settle(fake)
    assert fake.cluster.refs("Job") == [job_ref(1)]
    assert condition(fake, "Succeeded")[2].endswith(
        "no attempt is started while BlueprintInstance/demo/use has spec.suspend"
    )
    assert plan.requeue_after.total_seconds() == 30
    fake.cluster.edit(held, {"spec": {"suspend": False}})
    await teams.settle(fake)
    assert len(fake.cluster.refs("Job")) == 2


async def test_no_attempt_runs_on_in_the_history_of_a_run_that_ended() -> None:
    fake = await teams.started()
    teams.pod(fake, status=teams.running())
    annotate(fake, **{"kais.io/abort": "wrong namespace"})
    await teams.settle(fake)
    (history,) = status(fake)["history"]
    assert history["result"] == (
        'Cancelled: kais.io/abort "wrong namespace" ended the mission while attempt 1 ran'
    )
    assert history["finishedAt"] == status(fake)["finishedAt"]
    (episodes,) = fake.knowledge.episodes.values()
    assert [(episode.type, episode.error_signature) for episode in episodes] == [("decision", None)]
