"""Missions on real pods: every way in which a run can end, the verbs, and time that passes."""

import json
import time
from collections.abc import Iterator
from functools import partial

import pytest

from e2e.support import manifests
from e2e.support.installed import KAIS_NAMESPACE, OPERATOR, Body, Installed, conditions
from e2e.support.waiting import wait_until

pytestmark = pytest.mark.e2e
UNPULLABLE = "127.0.0.1:1/missing:1"
SLEEP = "import time; time.sleep(600)"


@pytest.fixture
def namespace(cluster: Installed, request: pytest.FixtureRequest) -> Iterator[str]:
    title = request.node.name.removeprefix("test_").replace("_", "-")
    yield from cluster.fresh_namespace(f"missions-{title[:40].strip('-')}")


def succeeded(body: Body) -> tuple[str, str]:
    condition = conditions(body)["Succeeded"]
    return condition["reason"], condition["message"]


def annotate(cluster: Installed, namespace: str, name: str, *annotations: str) -> None:
    cluster.kubectl("annotate", "mission", name, *annotations, "-n", namespace, "--overwrite")


def running(cluster: Installed, namespace: str, job: str) -> None:
    wait_until(
        lambda: cluster.get("job", job, namespace),
        lambda body: (body or {}).get("status", {}).get("ready") == 1,
        description=f"running {job}",
    )


def waits_for_review(cluster: Installed, namespace: str, name: str, attempt: int) -> Body:
    body = wait_until(
        lambda: cluster.get("mission", name, namespace),
        lambda mission_object: (
            (mission_object or {}).get("status", {}).get("attempt") == attempt
            and conditions(mission_object)["Succeeded"]["reason"] == "ReviewRequested"
        ),
        description=f"review of attempt {attempt}",
    )
    assert body is not None
    return body


def test_success_and_failure_are_the_tasks_own(cluster: Installed, namespace: str) -> None:
    fail = "raise SystemExit('no route')"
    cluster.apply(
        manifests.formation("good", namespace, "print('fine')"),
        manifests.mission("good", namespace),
        manifests.formation("bad", namespace, fail),
        manifests.mission("bad", namespace, completion={"maxAttempts": 2}),
    )
    good = cluster.finished_mission("good", namespace)
    assert good["status"]["outcome"] == "Succeeded"
    bad = cluster.finished_mission("bad", namespace)
    assert (bad["status"]["outcome"], bad["status"]["attempt"]) == ("Failed", 2)
    assert succeeded(bad) == (
        "TaskFailed",
        "Failed: attempt 2 of 2 failed: the task ended with exit code 1: no route",
    )


def test_a_timeout_fires_without_any_event(cluster: Installed, namespace: str) -> None:
    cluster.apply(manifests.formation("late", namespace, SLEEP))
    cluster.apply(manifests.mission("late", namespace, completion={"timeout": "8s"}))
    late = cluster.finished_mission("late", namespace)
    assert late["status"]["outcome"] == "TimedOut"
    assert succeeded(late)[1] == "the 8s for all attempts ran out in attempt 1"


def test_an_abort_is_cancelled_and_a_nonce_runs_it_again(
    cluster: Installed, namespace: str
) -> None:
    cluster.apply(manifests.formation("verbs", namespace, SLEEP))
    cluster.apply(manifests.mission("verbs", namespace))
    running(cluster, namespace, "verbs-a1")
    annotate(cluster, namespace, "verbs", "kais.io/abort=wrong input")
    first = cluster.finished_mission("verbs", namespace)
    assert (first["status"]["outcome"], first["status"]["acknowledged"]["abort"]) == (
        "Cancelled",
        "wrong input",
    )
    cluster.apply(manifests.formation("verbs", namespace, "print('fine')"))
    wait_until(
        lambda: json.dumps((cluster.get("cell", "verbs-worker-0", namespace) or {}).get("spec")),
        lambda spec: "fine" in spec,
        description="mended cell",
    )
    annotate(cluster, namespace, "verbs", "kais.io/rerun=again")
    second = wait_until(
        lambda: cluster.get("mission", "verbs", namespace),
        lambda body: (body or {}).get("status", {}).get("outcome") == "Succeeded",
        description="second run",
    )
    assert second is not None
    status = second["status"]
    assert status["acknowledged"] == {"rerun": "again"}
    assert status["runId"] != first["status"]["runId"]
    assert [(h.get("runId"), h["attempt"]) for h in status["history"]] == [
        (first["status"]["runId"], 1),
        (None, 1),
    ]
    assert [j["metadata"]["name"] for j in cluster.list("job", namespace)] == ["verbs-a1"]
    cluster.finished_mission("verbs", namespace)
    with cluster.store(namespace) as store:
        runs = store.list_runs(namespace=namespace).runs
    assert {run.outcome for run in runs} == {"Cancelled", "Succeeded"}
    annotate(cluster, namespace, "verbs", "kais.io/rerun=again")
    time.sleep(5)
    assert (cluster.get("mission", "verbs", namespace) or {})["status"]["runId"] == status["runId"]


def test_a_review_rejects_with_words_and_approves(cluster: Installed, namespace: str) -> None:
    echo = "import os; open('/dev/termination-log', 'w').write(os.environ['KAIS_FEEDBACK'])"
    review = {"enabled": True, "reviewer": "ana", "criteria": "Is the cause named?"}
    cluster.apply(manifests.formation("review", namespace, echo))
    cluster.apply(manifests.mission("review", namespace, completion={"review": review}))
    waiting_mission = waits_for_review(cluster, namespace, "review", 1)
    assert "Is the cause named?" in succeeded(waiting_mission)[1]
    events = cluster.list("event", namespace)
    assert [e["type"] for e in events if e["reason"] == "ReviewRequested"] == ["Normal"]
    user = cluster.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")

    def give(verdict: str) -> None:
        author = f"kais.io/reviewed-by={user}"
        annotate(cluster, namespace, "review", f"kais.io/review={verdict}", author)

    with pytest.raises(AssertionError, match=f"kais.io/reviewed-by: {user}"):
        annotate(cluster, namespace, "review", "kais.io/review=yes")
    give("yes")
    wait_until(
        lambda: succeeded(cluster.get("mission", "review", namespace) or {})[1],
        lambda condition_message: "kais.io/review is not JSON" in condition_message,
        description="words about a verdict that cannot be read",
    )
    review_json = '{"attempt": 1, "verdict": "reject", "feedback": "which $(NODE)?"}'
    give(review_json)
    second = waits_for_review(cluster, namespace, "review", 2)
    assert "is ignored" not in succeeded(second)[1], "the verdict has rejected attempt 1"
    give('{"attempt": 2, "verdict": "approve"}')
    finished_mission = cluster.finished_mission("review", namespace)
    assert (finished_mission["status"]["outcome"], finished_mission["status"]["result"]) == (
        "Succeeded",
        "which $(NODE)?",
    )
    assert finished_mission["status"]["review"] == {"status": "Approved", "by": user}
    assert (
        finished_mission["status"]["history"][0]["result"]
        == f"rejected in review by {user}: which $(NODE)?"
    )


def test_an_image_that_cannot_be_pulled_is_the_clusters_fault(
    cluster: Installed, namespace: str
) -> None:
    cluster.apply(manifests.formation("pull", namespace, "pass", image=UNPULLABLE))
    cluster.apply(manifests.mission("pull", namespace, startDeadline="15s"))
    finished_mission = cluster.finished_mission("pull", namespace)
    assert finished_mission["status"]["outcome"] == "InfrastructureFailed"
    assert UNPULLABLE in succeeded(finished_mission)[1]


def test_a_quota_that_refuses_the_job_is_the_clusters_fault(
    cluster: Installed, namespace: str
) -> None:
    cluster.kubectl("create", "quota", "none", "--hard=count/jobs.batch=0", "-n", namespace)
    cluster.apply(manifests.formation("quota", namespace, "pass"))
    cluster.apply(manifests.mission("quota", namespace, startDeadline="10s"))
    finished_mission = cluster.finished_mission("quota", namespace)
    assert finished_mission["status"]["outcome"] == "InfrastructureFailed"
    assert "exceeded quota: none" in succeeded(finished_mission)[1]


@pytest.mark.alone
def test_a_deadline_that_passed_without_the_operator_is_judged_by_what_the_kubelet_left(
    cluster: Installed, namespace: str
) -> None:
    cluster.apply(
        manifests.formation("pull", namespace, "pass", image=UNPULLABLE),
        manifests.formation("slow", namespace, SLEEP),
        manifests.formation("fast", namespace, "import time; time.sleep(8); print('fine')"),
    )
    for name in ("pull", "slow", "fast"):
        cluster.apply(manifests.mission(name, namespace, completion={"timeout": "25s"}))
    for name in ("pull", "slow", "fast"):
        wait_until(
            partial(cluster.get, "configmap", f"{name}-a1-knowledge", namespace),
            lambda body: body is not None,
            description=f"knowledge of {name}",
        )
    (deployment,) = cluster.list("deployment", KAIS_NAMESPACE, OPERATOR)
    target = f"deployment/{deployment['metadata']['name']}"
    cluster.kubectl("scale", target, "-n", KAIS_NAMESPACE, "--replicas=0")
    try:
        for name in ("pull", "slow", "fast"):
            wait_until(
                partial(cluster.get, "job", f"{name}-a1", namespace),
                lambda job: bool((job or {}).get("status", {}).get("conditions")),
                description=f"end of {name}",
            )
    finally:
        cluster.kubectl("scale", target, "-n", KAIS_NAMESPACE, "--replicas=1")
        cluster.kubectl("rollout", "status", target, "-n", KAIS_NAMESPACE, "--timeout=90s")
    ends = {
        name: cluster.finished_mission(name, namespace)["status"]["outcome"]
        for name in ("pull", "slow", "fast")
    }
    assert ends == {"pull": "InfrastructureFailed", "slow": "TimedOut", "fast": "Succeeded"}
