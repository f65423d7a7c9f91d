"""Missions: what becomes of an attempt, and when the next one follows."""

import pytest

from kais_operator import errors
from kais_operator.planning.plan import Body
from tests.fakes import teams
from tests.fakes.teams import MISSION, condition, job_ref, status
from tests.fakes.world import FakeWorld


def environment(fake: FakeWorld, attempt: int) -> dict[str, str]:
    (task,) = fake.cluster.read(job_ref(attempt))["spec"]["template"]["spec"]["containers"]
    return {entry["name"]: entry["value"] for entry in task["env"]}


async def test_exit_code_zero_is_success_with_the_tasks_own_words() -> None:
    fake = await teams.started()
    fake.clock.advance(20)
    teams.succeed(fake, '{"pods": 2}')
    await teams.settle(fake)
    reported_status = status(fake)
    assert (reported_status["phase"], reported_status["outcome"]) == ("Succeeded", "Succeeded")
    assert (reported_status["result"], reported_status["resultTruncated"]) == ('{"pods": 2}', False)
    assert (reported_status["startedAt"], reported_status["finishedAt"]) == (
        "2026-03-01T12:00:00Z",
        "2026-03-01T12:00:20Z",
    )
    assert reported_status["history"] == [
        {
            "attempt": 1,
            "startedAt": "2026-03-01T12:00:00Z",
            "finishedAt": "2026-03-01T12:00:20Z",
            "result": "the task succeeded",
        }
    ]
    assert reported_status["display"] == {"attempt": "1/3", "facts": "0 in, 1 out"}
    assert condition(fake, "Succeeded") == ("True", "Finished", "attempt 1: the task succeeded")


LOAD = "; push the image to a registry that the nodes read, or `kais cluster load` it"
TROUBLES = {
    "an image that cannot be pulled": (
        teams.waiting("ErrImagePull", "dial tcp 127.0.0.1:1: connection refused"),
        "ImagePullFailed",
        f"Pod/demo/doctor-a1-xyz12: ErrImagePull: dial tcp 127.0.0.1:1: connection refused{LOAD}",
    ),
    "an image that is pulled again and again": (
        teams.waiting("ImagePullBackOff", 'Back-off pulling image "127.0.0.1:1/missing:1"'),
        "ImagePullFailed",
        (
            "Pod/demo/doctor-a1-xyz12: ImagePullBackOff: "
            f'Back-off pulling image "127.0.0.1:1/missing:1"{LOAD}'
        ),
    ),
    "a name that is no image": (
        teams.waiting("InvalidImageName", "couldn't parse image name"),
        "ImagePullFailed",
        f"Pod/demo/doctor-a1-xyz12: InvalidImageName: couldn't parse image name{LOAD}",
    ),
    "a secret that is missing": (
        teams.waiting("CreateContainerConfigError", 'secret "keys" not found'),
        "PodFailed",
        (
            'Pod/demo/doctor-a1-xyz12: CreateContainerConfigError: secret "keys" not found; create'
            " it with `kubectl create secret generic keys -n demo`, and the container starts"
        ),
    ),
    "a pod that no node takes": (
        {
            "phase": "Pending",
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "0/1 nodes are available: 1 Insufficient memory.",
                }
            ],
        },
        "Unschedulable",
        "Pod/demo/doctor-a1-xyz12: 0/1 nodes are available: 1 Insufficient memory.",
    ),
}


@pytest.mark.parametrize(("pod", "reason", "message"), TROUBLES.values(), ids=TROUBLES)
async def test_what_keeps_a_pod_from_starting_is_told_at_once(
    pod: Body, reason: str, message: str
) -> None:
    fake = await teams.started()
    teams.pod(fake, status=pod)
    await teams.settle(fake)
    assert condition(fake, "Started") == ("False", reason, message)
    assert (fake.cluster.events[-1]["type"], fake.cluster.events[-1]["reason"]) == (
        "Warning",
        reason,
    )
    teams.pod(fake, status=teams.running())
    await teams.settle(fake)
    assert condition(fake, "Started")[:2] == ("True", "Started")


@pytest.mark.parametrize("pod", [t[0] for t in TROUBLES.values()], ids=TROUBLES)
async def test_a_pod_that_never_starts_is_the_clusters_fault(pod: Body) -> None:
    fake = await teams.started(teams.work(startDeadline="30s"))
    teams.pod(fake, status=pod)
    await teams.settle(fake)
    fake.clock.advance(30)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "InfrastructureFailed"
    message = condition(fake, "Succeeded")[2]
    assert message.startswith("attempt 1 did not start within 30s: Pod/demo/doctor-a1-xyz12: ")
    assert fake.cluster.refs("Job") == []
    assert status(fake)["display"]["attempt"] == "1/3"


async def test_a_timeout_before_the_image_came_is_the_clusters_fault_too() -> None:
    fake = await teams.started(teams.work(completion={"timeout": "5s"}))
    teams.pod(fake, status=teams.waiting("ErrImagePull", "no route to host"))
    await teams.settle(fake)
    fake.clock.advance(5)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "InfrastructureFailed"
    assert condition(fake, "Succeeded")[2].startswith(
        "attempt 1 did not start within the 5s for all attempts: Pod/demo/"
    )


async def test_a_failed_attempt_is_followed_by_one_that_knows_why() -> None:
    fake = await teams.started()
    fake.clock.advance(60)
    teams.fail(fake, "checking\nno such pod")
    await teams.settle(fake)
    assert fake.cluster.refs("Job") == [job_ref(1), job_ref(2)]
    reported_environment = environment(fake, 2)
    assert (reported_environment["KAIS_ATTEMPT"], reported_environment["KAIS_FEEDBACK"]) == (
        "2",
        "checking\nno such pod",
    )
    assert reported_environment["KAIS_RUN_ID"] == environment(fake, 1)["KAIS_RUN_ID"]
    spec = fake.cluster.read(job_ref(2))["spec"]
    assert spec["template"]["spec"]["activeDeadlineSeconds"] == 540
    assert spec["activeDeadlineSeconds"] == 630
    assert status(fake)["attempt"] == 2
    assert status(fake)["history"][0]["result"] == ("the task ended with exit code 1: no such pod")
    assert {r.attempt for r in fake.knowledge.recalls} == {1, 2}


async def test_a_later_attempt_whose_image_is_not_pulled_names_that_reason() -> None:
    fake = await teams.started()
    teams.fail(fake, "no such pod")
    await teams.settle(fake)
    teams.pod(fake, 2, status=teams.waiting("ErrImagePull", "no route to host"))
    await teams.settle(fake)
    status_, reason, message = condition(fake, "Succeeded")
    assert (status_, reason) == ("Unknown", "ImagePullFailed")
    assert message.startswith("attempt 2 of 3 waits: Pod/demo/doctor-a2-")


async def test_an_attempt_that_said_nothing_gives_its_end_as_feedback() -> None:
    fake = await teams.started()
    teams.fail(fake, "", code=7)
    await teams.settle(fake)
    assert environment(fake, 2)["KAIS_FEEDBACK"] == "the task ended with exit code 7"


async def test_after_the_last_attempt_the_mission_has_failed() -> None:
    fake = await teams.started(teams.work(completion={"maxAttempts": 2}))
    teams.fail(fake)
    await teams.settle(fake)
    teams.fail(fake, "still no such pod", 2)
    await teams.settle(fake)
    reported_status = status(fake)
    assert (reported_status["phase"], reported_status["outcome"], reported_status["attempt"]) == (
        "Failed",
        "Failed",
        2,
    )
    assert reported_status["result"] == "still no such pod"
    assert condition(fake, "Succeeded") == (
        "False",
        "TaskFailed",
        ("Failed: attempt 2 of 2 failed: the task ended with exit code 1: still no such pod"),
    )
    assert fake.cluster.refs("Job") == [job_ref(1), job_ref(2)]


async def test_a_task_without_memory_says_so() -> None:
    fake = await teams.started(teams.work(completion={"maxAttempts": 1}))
    teams.fail(fake, "", code=137, reason="OOMKilled")
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Failed"
    assert condition(fake, "Succeeded")[2] == (
        "Failed: attempt 1 of 1 failed: the task used more memory than its limit and was killed "
        "(OOMKilled)"
    )


async def test_a_task_that_hangs_times_out_without_any_event() -> None:
    fake = await teams.started(teams.work(completion={"timeout": "5s"}))
    teams.pod(fake, status=teams.running())
    plan = await teams.settle(fake)
    assert plan.requeue_after.total_seconds() == 5
    fake.clock.advance(5)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "TimedOut"
    assert condition(fake, "Succeeded") == (
        "False",
        "TimedOut",
        "the 5s for all attempts ran out in attempt 1",
    )
    assert fake.cluster.refs("Job") == []


async def test_the_jobs_own_deadline_is_a_timeout() -> None:
    fake = await teams.started(teams.work(completion={"timeout": "5s"}))
    teams.pod(fake, status=teams.running())
    fake.clock.advance(4)
    teams.end_job(fake, condition="Failed", reason="DeadlineExceeded")
    await teams.settle(fake)
    assert status(fake)["outcome"] == "TimedOut"
    assert status(fake)["history"][0]["result"] == "the time for all attempts ran out"


async def test_a_timeout_covers_all_attempts() -> None:
    fake = await teams.started(teams.work(completion={"timeout": "5s"}))
    fake.clock.advance(5)
    teams.fail(fake)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "TimedOut"
    assert fake.cluster.refs("Job") == [job_ref(1)]


async def test_a_job_that_finished_while_nobody_looked_is_judged_by_its_own_times() -> None:
    fake = await teams.started(teams.work(completion={"timeout": "10s"}))
    fake.clock.advance(4)
    teams.succeed(fake)
    fake.clock.advance(3600)
    await teams.settle(fake)
    assert (status(fake)["outcome"], status(fake)["finishedAt"]) == (
        "Succeeded",
        "2026-03-01T12:00:04Z",
    )


async def test_a_task_that_just_ended_is_not_timed_out_before_its_job_counts_it() -> None:
    fake = await teams.started(teams.work(completion={"timeout": "5s"}))
    teams.pod(
        fake,
        status={"phase": "Succeeded", **teams.container({"terminated": {"exitCode": 0}})},
    )
    fake.clock.advance(6)
    await teams.settle(fake)
    assert "outcome" not in status(fake)
    fake.clock.advance(1)
    teams.end_job(fake, condition="Complete")
    await teams.settle(fake)
    assert status(fake)["outcome"] == "Succeeded"


LOST: dict[str, tuple[Body | None, str]] = {
    "whose pod was evicted": (
        {
            "phase": "Failed",
            "reason": "Evicted",
            "message": "The node was low on resource: memory.",
        },
        "attempt 1: Evicted: The node was low on resource: memory.",
    ),
    "whose pod is gone": (
        None,
        ("attempt 1: its Job failed; its pod is gone, so it is unknown how the task ended"),
    ),
}


@pytest.mark.parametrize(("pod", "message"), LOST.values(), ids=LOST)
async def test_an_attempt_is_the_clusters_fault(pod: Body | None, message: str) -> None:
    fake = await teams.started()
    if pod is not None:
        teams.pod(fake, status=pod)
    teams.end_job(fake, condition="Failed", reason="BackoffLimitExceeded")
    await teams.settle(fake)
    assert status(fake)["outcome"] == "InfrastructureFailed"
    assert condition(fake, "Succeeded")[2] == message


async def test_a_pod_that_was_moved_does_not_count_as_a_try() -> None:
    fake = await teams.started()
    disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    ended = teams.container({"terminated": {"exitCode": 143}})
    teams.pod(fake, status={"phase": "Failed", "conditions": [disrupted], **ended}, name="first")
    fake.clock.advance(1)
    teams.pod(fake, status=teams.running())
    await teams.settle(fake)
    assert condition(fake, "Succeeded")[2] == "attempt 1 of 3 is running"
    assert status(fake)["attempt"] == 1


async def with_replacement(created_after_s: float | None) -> FakeWorld:
    """A mission whose pod was evicted after 50 minutes, and is gone; perhaps another one waits."""
    fake = await teams.started(teams.work(completion={"timeout": "2h"}))
    fake.cluster.set_status(teams.job_ref(), {"startTime": teams.stamp(fake)})
    first = teams.pod(fake, status=teams.running(), name="first")
    await teams.settle(fake)
    fake.clock.advance(3000)
    fake.cluster.remove(first)
    if created_after_s is not None:
        fake.clock.advance(created_after_s)
        teams.pod(fake, status={"phase": "Pending"}, creationTimestamp=teams.stamp(fake))
    await teams.settle(fake)
    return fake


@pytest.mark.parametrize("created_after_s", [None, 1], ids=["no pod yet", "a pod that waits"])
async def test_an_attempt_whose_pod_was_evicted_late_waits_for_another_one(
    created_after_s: float | None,
) -> None:
    fake = await with_replacement(created_after_s)
    assert "outcome" not in status(fake)
    teams.pod(fake, status=teams.running())
    await teams.settle(fake)
    assert condition(fake, "Succeeded")[2] == "attempt 1 of 3 is running"


async def test_a_pod_that_replaces_an_evicted_one_has_to_start_in_time() -> None:
    fake = await with_replacement(1)
    fake.clock.advance(299)
    await teams.settle(fake)
    assert "outcome" not in status(fake)
    fake.clock.advance(1)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "InfrastructureFailed"
    assert "attempt 1 did not start within 5m" in condition(fake, "Succeeded")[2]


async def test_a_pod_on_a_lost_node_is_named_and_not_waited_for_for_ever() -> None:
    fake = await teams.started()
    teams.pod(fake, status=teams.running())
    teams.pod(
        fake,
        status=teams.running(),
        deletionTimestamp=teams.stamp(fake),
        finalizers=["batch.kubernetes.io/job-tracking"],
    )
    await teams.settle(fake)
    assert "outcome" not in status(fake)
    fake.clock.advance(60)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "InfrastructureFailed"
    assert condition(fake, "Succeeded")[2] == (
        "attempt 1: Pod/demo/doctor-a1-xyz12 stays terminating on node-1, which does not answer"
    )


RESULTS: dict[str, tuple[str, str, bool]] = {
    "short text": ("done", "done", False),
    "as much as the kubelet keeps": ("x" * 4096, "x" * 4096, True),
    "the end of a long log": ("y" * 2048, "y" * 2048, True),
    "text with a NUL": ("a\x00b", "ab", False),
    "what a terminal would obey": ("a\x1b[2J\tb\x9b\nc", "a[2J\tb\nc", False),
    "letters cut in the middle": ("é" * 3000, "é" * 2048, True),
}


@pytest.mark.parametrize(("message", "expected", "is_cut"), RESULTS.values(), ids=RESULTS)
async def test_the_result_of(message: str, expected: str, is_cut: bool) -> None:
    fake = await teams.started()
    teams.succeed(fake, message)
    await teams.settle(fake)
    assert (status(fake)["result"], status(fake)["resultTruncated"]) == (expected, is_cut)


async def test_a_job_that_lost_its_owner_is_adopted_not_doubled() -> None:
    fake = await teams.started()
    fake.cluster.edit(job_ref(), {"metadata": {"ownerReferences": []}})
    await teams.settle(fake)
    assert fake.cluster.refs("Job") == [job_ref()]
    (owner,) = fake.cluster.read(job_ref())["metadata"]["ownerReferences"]
    assert owner["uid"] == fake.cluster.read(MISSION)["metadata"]["uid"]


@pytest.mark.parametrize("crash_after", range(1, 9))
async def test_an_operator_that_dies_after_any_write_makes_one_job_and_one_run(
    crash_after: int,
) -> None:
    fake = await teams.ready_world()
    limit = len(fake.cluster.writes) + crash_after
    fake.cluster.leads = lambda: len(fake.cluster.writes) < limit
    with pytest.raises(errors.NotLeading):
        await _one_run(fake, times=6)
    fake.cluster.leads = lambda: True
    fake.sync_state.clear()
    await _one_run(fake)
    assert fake.cluster.refs("Job") == [job_ref()]
    assert len(fake.knowledge.runs) == 1
    assert status(fake)["outcome"] == "Succeeded"
    (episodes,) = fake.knowledge.episodes.values()
    assert len(episodes) == 1
    assert len(fake.knowledge.recalls) <= 1


async def _one_run(fake: FakeWorld, *, times: int = 1) -> None:
    for _ in range(times):
        await teams.settle(fake)
        if fake.cluster.refs("Pod") == []:
            teams.succeed(fake)
        await teams.settle(fake)
        fake.cluster.edit(MISSION, {"status": None})
        await teams.settle(fake)
