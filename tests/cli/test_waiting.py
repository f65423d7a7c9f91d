"""What a person reads while a run waits: each new reason, as it comes."""

import pytest

from kais import labels
from kais_cli.exit_status import ExitStatus
from tests.cli import objects

USE = ("blueprint", "use", "doctor", "--set", "who=bob")
NAME = "doctor-x2k4f"


@pytest.fixture(autouse=True)
def served(cluster, knowledge):
    for body in (
        objects.blueprint(), objects.revision(), objects.knowledge_pod(), objects.account(),
    ):  # fmt: skip
        cluster.put(body)
    knowledge.answers["GET /v1/facts"] = {"facts": []}


def waiting(reason, message, *, started="False", **status):
    """A mission that has not started, or has: its summary has the reason and the words."""
    conditions = [
        objects.condition("Started", started, reason, message),
        objects.condition("Recorded", "False", "RunOpen"),
        objects.condition("Succeeded", "Unknown", reason, message),
    ]
    return objects.mission(**({"phase": "Pending", "conditions": conditions} | status))


def test_a_use_prints_why_its_cells_are_not_ready_and_what_changes_of_it(terminal, cluster):
    cluster.script = [
        waiting("WaitingForFormation", "the Formation has not made its cell web-0 yet"),
        waiting("WaitingForCells", "waiting for cells: web-0 is being prepared"),
        waiting("WaitingForCells", "waiting for cells: web-1 is being prepared"),
        waiting("WaitingForCells", "waiting for cells: web-0: ImagePullFailed: no such image"),
        waiting("Suspended", "no attempt is started while it is suspended"),
        waiting("Running", "attempt 1 of 3 is running", started="True", attempt=1, phase="Running"),
        waiting("ReviewRequested", "is it clear?", started="True", attempt=1, phase="Running"),
        objects.ended(),
    ]
    assert terminal.run(*USE) == ExitStatus.SUCCEEDED
    assert terminal.out.splitlines()[1:7] == [
        "Mission waits: WaitingForFormation: the Formation has not made its cell web-0 yet",
        "Mission waits for cells: web-0 is being prepared",
        "Mission waits for cells: web-0: ImagePullFailed: no such image",
        "Mission Started: Suspended: no attempt is started while it is suspended",
        "attempt 1/3 started",
        "Mission waits: ReviewRequested: is it clear?",
    ]


def test_of_several_cells_only_those_are_printed_whose_state_is_new(terminal, cluster):
    pulling = "PodReady: Pod/demo/web: ErrImagePull: no answer; push the image"
    backing_off = (
        'PodReady: Pod/demo/web: ImagePullBackOff: Back-off pulling image "x:1": ErrImagePull: no'
        " answer; push the image"
    )
    texts = [
        "web-0 is being prepared; web-1 is being prepared; db-0 is being prepared",
        "web-1: PodReady: the pod is being started; db-0 is being prepared",
        f"web-0: {pulling}; db-0 is being prepared",
        f"web-0: {backing_off}",
        f"web-0: {pulling}; web-1: {pulling}; and 2 more",
        f"web-0: {backing_off}; web-1: {backing_off}; and 1 more",
        f"db-0: {pulling}",
    ]
    cluster.script = [
        *(waiting("WaitingForCells", f"waiting for cells: {text}") for text in texts),
        objects.ended(),
    ]
    assert terminal.run(*USE) == ExitStatus.SUCCEEDED
    assert [line for line in terminal.out.splitlines() if line.startswith("Mission waits")] == [
        f"Mission waits for cells: {texts[0]}",
        f"Mission waits for cells: web-0: {pulling}",
        f"Mission waits for cells: db-0: {pulling}",
    ]


def test_second_wait_for_the_same_after_work_is_printed_again(terminal, cluster):
    message = "attempt 1 of 3: restart waits"
    approval = waiting("ApprovalRequired", message, started="True", attempt=1)
    running = waiting("Running", "attempt 1 of 3 is running", started="True", attempt=1)
    cluster.script = [approval, running, approval, running, objects.ended()]
    assert terminal.run(*USE) == ExitStatus.SUCCEEDED
    assert terminal.out.count(f"Mission waits: ApprovalRequired: {message}") == 2


def test_image_that_is_pulled_again_and_again_is_reported_once_for_each_attempt(terminal, cluster):
    def pulled(attempt, message):
        status = {"attempt": attempt, "phase": "Running"}
        return waiting("ImagePullFailed", f"Pod/demo/x-a{attempt}-k2m9: {message}", **status)

    messages = [
        "ErrImagePull: no",
        'ImagePullBackOff: Back-off pulling image "x": ErrImagePull: no',
    ]
    cluster.script = [
        *(pulled(1, message) for message in messages * 2),
        *(pulled(2, message) for message in messages * 2),
        objects.ended(),
    ]
    assert terminal.run(*USE) == ExitStatus.SUCCEEDED
    assert [line for line in terminal.out.splitlines() if "ImagePull" in line] == [
        "Mission Started: ImagePullFailed: Pod/demo/x-a1-k2m9: ErrImagePull: no",
        "Mission Started: ImagePullFailed: Pod/demo/x-a2-k2m9: ErrImagePull: no",
    ]


def test_an_attempt_that_starts_is_not_announced_as_a_wait(terminal, cluster):
    cluster.script = [
        waiting("WaitingForPods", "attempt 1 is being started", attempt=1, phase="Running"),
        waiting("Running", "attempt 1 of 3 is running", started="True", attempt=1, phase="Running"),
        waiting("WaitingForPods", "the checks wait for a ready pod", started="True", attempt=1),
        objects.ended(),
    ]
    assert terminal.run(*USE) == ExitStatus.SUCCEEDED
    assert terminal.out.splitlines()[1:3] == [
        "attempt 1/3 started",
        "Mission waits: WaitingForPods: the checks wait for a ready pod",
    ]


def test_a_use_without_a_mission_prints_what_its_cells_wait_for(terminal, cluster):
    message = "0 of 1 cells are ready; web-0: Pulling"
    slow = [objects.condition("CellsReady", "False", "WaitingForCells", message)]
    ready = [
        objects.condition("CellsReady", "True", "CellsReady"),
        objects.condition("MissionFinished", "False", "NoMission"),
    ]
    cluster.script = [
        objects.instance(phase="Running", conditions=slow),
        objects.instance(phase="Running", conditions=ready),
    ]
    assert terminal.run(*USE) == ExitStatus.SUCCEEDED
    assert f"BlueprintInstance waits: WaitingForCells: {message}\n" in terminal.out


def asked_again(body, **annotations):
    body["metadata"]["annotations"] = {labels.RERUN: "x2k4f"} | annotations
    return body


def owned(body):
    owner = {"apiVersion": "kais.io/v1", "kind": "BlueprintInstance", "controller": True}
    body["metadata"]["ownerReferences"] = [owner | {"name": NAME, "uid": "u"}]
    return body


def test_retry_of_a_suspended_use_says_that_it_is_suspended(terminal, cluster):
    cluster.put(owned(objects.ended("Failed")))
    use = objects.instance(runId="run-1", outcome="Failed")
    use["spec"]["suspend"] = True
    cluster.put(use)
    cluster.script = [asked_again(use), asked_again(use)]
    assert terminal.run("mission", "retry", NAME, "--timeout", "5s") == ExitStatus.TIMED_OUT
    line = (
        f"BlueprintInstance waits: Suspended: BlueprintInstance/demo/{NAME} has spec.suspend;"
        " the run begins when it is false\n"
    )
    assert terminal.out.count(line) == 1


@pytest.mark.parametrize(
    ("annotations", "conditions", "line"),
    [
        (
            {labels.RECONCILE: "suspended"},
            [],
            (
                f"Suspended: Mission/demo/{NAME} has kais.io/reconcile: suspended; the run begins"
                " without it"
            ),
        ),
        (
            {},
            [objects.condition("Recorded", "False", "StoreUnavailable", "no answer")],
            "StoreUnavailable: the run before is not recorded: no answer",
        ),
    ],
)
def test_retry_says_what_holds_the_next_run_back(terminal, cluster, annotations, conditions, line):
    initial_state = objects.ended("Failed", conditions=conditions)
    cluster.put(initial_state)
    cluster.script = [asked_again(initial_state, **annotations), None]
    assert terminal.run("mission", "retry", NAME, "--timeout", "5s") == ExitStatus.TIMED_OUT
    assert f"Mission waits: {line}\n" in terminal.out


def test_retry_prints_why_the_cells_of_the_new_run_are_not_ready(terminal, cluster):
    cluster.put(objects.ended("Failed"))
    message = "waiting for cells: web-0 is being scaled up"
    cluster.script = [
        waiting("WaitingForCells", message, runId="run-2"),
        objects.ended(runId="run-2"),
    ]
    assert terminal.run("mission", "retry", NAME) == ExitStatus.SUCCEEDED
    assert terminal.out.startswith("Mission waits for cells: web-0 is being scaled up\n")
