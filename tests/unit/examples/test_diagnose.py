import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from namespace_doctor import diagnose, image_causes
from namespace_doctor.diagnoses import Cause, Diagnosis

RECORDED = Path(__file__).parent / "recorded"
NOW = datetime(2026, 11, 20, 10, 30, tzinfo=UTC)
LOGS = "read its last words with kubectl logs --previous and mend the program or its arguments"


def recorded(name: str) -> tuple[dict, list[dict]]:
    case = json.loads((RECORDED / f"{name}.json").read_text())
    return case["pod"], case["events"]


def diagnosed(name: str) -> Diagnosis:
    (diagnosis,) = diagnose.diagnose_pod(*recorded(name), now=NOW)
    return diagnosis


@pytest.mark.parametrize(
    ("name", "cause", "signature", "statement"),
    [
        pytest.param(
            "image-back-off",
            Cause.IMAGE,
            "ImagePullBackOff 127.0.0.1:1/missing:1",
            "image 127.0.0.1:1/missing:1 cannot be pulled: connection refused, nothing listens at"
            " 127.0.0.1:1; change the image or start that registry",
            id="an image that the kubelet backs off from pulling names the registry's silence",
        ),
        pytest.param(
            "crash-loop",
            Cause.CRASH,
            "CrashLoopBackOff crash-loop/app exit 1",
            "container crash-loop/app exits with code 1 and is restarted again and again:"
            f" no configuration in /etc/app/config.yaml; {LOGS}",
            id="a crash loop tells the exit code and the program's last words",
        ),
        pytest.param(
            "crash-of-a-deployment",
            Cause.CRASH,
            "CrashLoopBackOff api/app exit 127",
            "container api/app exits with code 127 and is restarted again and again;"
            " correct the command: the image does not have it",
            id="a pod of a Deployment is known by the Deployment's name",
        ),
        pytest.param(
            "failing-readiness-probe",
            Cause.PROBE,
            "Unhealthy readiness failing-probe/app",
            'readiness probe of failing-probe/app fails: Get "http://<pod>:8080/ready": dial tcp'
            " <pod>:8080: connect: connection refused;"
            " make the container answer the probe, or correct what the probe asks",
            id="a failing readiness probe is told without the pod's address",
        ),
        pytest.param(
            "failing-liveness-probe",
            Cause.PROBE,
            "Unhealthy liveness slow/app",
            "liveness probe of slow/app fails: HTTP probe failed with statuscode: 500;"
            " make the container answer the probe, or correct what the probe asks",
            id="a crash loop that its liveness probe makes is the probe's",
        ),
        pytest.param(
            "out-of-memory",
            Cause.MEMORY,
            "OOMKilled out-of-memory/app limit 64Mi",
            "container out-of-memory/app is killed out of memory: it needs more than its limit of"
            " 64Mi; raise the memory limit or make it need less",
            id="a crash loop that the kernel makes is the memory limit's",
        ),
        pytest.param(
            "unschedulable-by-selector",
            Cause.UNSCHEDULABLE,
            "FailedScheduling node selector demo.kais.io/rack=nowhere",
            "node selector demo.kais.io/rack=nowhere leaves a pod unschedulable: no node has these"
            " labels; label a node with it or take the selector out of the pod",
            id="a node selector that no node satisfies is named",
        ),
        pytest.param(
            "unschedulable-by-size",
            Cause.UNSCHEDULABLE,
            "FailedScheduling workload greedy",
            "workload greedy is unschedulable: it asks for more cpu and memory than any node has"
            " free; lower the pod's requests or add a node",
            id="a pod that asks for too much says what is scarce",
        ),
        pytest.param(
            "missing-config",
            Cause.NOT_CREATED,
            "CreateContainerConfigError no-config/app",
            'container no-config/app cannot be created: configmap "settings" not found;'
            " create what the message names or correct the reference to it",
            id="a container with a missing reference repeats the kubelet's words",
        ),
        pytest.param(
            "missing-volume",
            Cause.NOT_CREATED,
            "FailedMount no-volume/app",
            "container no-volume/app cannot be created: MountVolume.SetUp failed for volume"
            ' "data" : secret "keys" not found;'
            " create what the message names or correct the reference to it",
            id="a pod that waits for a volume is explained by the event",
        ),
    ],
)
def test_failure_is_explained(name: str, cause: Cause, signature: str, statement: str) -> None:
    diagnosis = diagnosed(name)

    assert (diagnosis.cause, diagnosis.signature, diagnosis.statement) == (
        cause,
        signature,
        statement,
    )


@pytest.mark.parametrize("name", ["healthy-after-restarts", "completed", "starting"])
def test_pod_that_does_not_fail_has_no_diagnosis(name: str) -> None:
    assert diagnose.diagnose_pod(*recorded(name), now=NOW) == ()


def test_container_that_runs_for_a_moment_between_two_crashes_is_not_well() -> None:
    pod, events = recorded("healthy-after-restarts")
    restarted = datetime(2026, 11, 20, 10, 0, 2, tzinfo=UTC)

    at_once = diagnose.diagnose_pod(pod, events, now=restarted + timedelta(seconds=59))
    later_diagnose_pod = diagnose.diagnose_pod(pod, events, now=restarted + timedelta(seconds=60))

    assert [d.signature for d in at_once] == ["CrashLoopBackOff healthy/app exit 1"]
    assert later_diagnose_pod == ()


def test_first_failed_pull_and_back_off_make_the_same_fact() -> None:
    assert diagnosed("image-first-failure").statement == diagnosed("image-back-off").statement


def test_events_of_an_older_pod_of_that_name_are_not_believed() -> None:
    pod, events = recorded("failing-readiness-probe")
    for event in events:
        event["involvedObject"]["uid"] = "another"

    assert diagnose.diagnose_pod(pod, events, now=NOW) == ()


def test_pods_of_kais_and_pods_that_are_going_are_left_out() -> None:
    managed_pod, events = recorded("crash-loop")
    managed_pod["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "kais"
    going, _ = recorded("out-of-memory")
    going["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:00Z"

    examination = diagnose.examine([managed_pod, going], events, now=NOW, max_pods=50)

    assert examination == diagnose.Examination(examined_pods=0, omitted_pods=0, diagnoses=())


def test_failing_pods_beyond_the_limit_are_counted() -> None:
    pods = [recorded(name)[0] for name in ("crash-loop", "out-of-memory", "image-back-off")]

    examination = diagnose.examine(pods, [], now=NOW, max_pods=2)

    assert [d.pod for d in examination.diagnoses] == ["crash-loop", "missing-image-one"]
    assert (examination.examined_pods, examination.omitted_pods) == (3, 1)


@pytest.mark.parametrize(
    ("image", "registry"),
    [
        ("busybox", "docker.io"),
        ("library/busybox:1", "docker.io"),
        ("localhost/kais/operator:1", "localhost"),
        ("127.0.0.1:1/missing:1", "127.0.0.1:1"),
        ("registry.example/team/app@sha256:0", "registry.example"),
    ],
)
def test_registry_is_what_stands_before_the_first_slash_of_an_image(
    image: str, registry: str
) -> None:
    assert image_causes.registry(image) == registry
