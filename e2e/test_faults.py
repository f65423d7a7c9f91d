"""Kills and restarts: one Job, one run, each fact once, the same statistics."""

import time
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest

from e2e.support import audit, manifests
from e2e.support.installed import KAIS_NAMESPACE, KNOWLEDGE, OPERATOR, Body, Installed, conditions
from e2e.support.waiting import wait_until

pytestmark = pytest.mark.e2e
alone = pytest.mark.alone
FAILS_TWICE = """
import os
from knowledge_client import KnowledgeClient, models
run, attempt = os.environ["KAIS_RUN_ID"], int(os.environ["KAIS_ATTEMPT"])
line = lambda n: models.EpisodeIn(attempt=attempt, type="error", content=f"line {n}: no route",
                                  error_signature="NoRouteToHost 10.9.8.7")
with KnowledgeClient() as client:
    client.add_episodes(models.EpisodesIn(run_id=run, episodes=(line(1), line(2))))
"""


@pytest.fixture
def namespace(cluster: Installed, request: pytest.FixtureRequest) -> Iterator[str]:
    title = request.node.name.removeprefix("test_").replace("_", "-")
    yield from cluster.fresh_namespace(f"faults-{title[:40].strip('-')}")


def restart_operator(cluster: Installed) -> None:
    (deployment,) = cluster.list("deployment", KAIS_NAMESPACE, OPERATOR)
    target = f"deployment/{deployment['metadata']['name']}"
    cluster.kubectl("rollout", "restart", target, "-n", KAIS_NAMESPACE)
    cluster.kubectl("rollout", "status", target, "-n", KAIS_NAMESPACE, "--timeout=90s")


def statistics(body: Body | None) -> dict[str, object]:
    status = (body or {}).get("status", {})
    names = ("usageCount", "running", "succeeded", "failed", "excluded", "avgSuccessRate")
    return {name: status.get(name) for name in names}


@alone
def test_operator_killed_while_the_job_runs_makes_no_second_job_and_no_second_run(
    cluster: Installed, namespace: str
) -> None:
    script = "import time; time.sleep(8)" + FAILS_TWICE
    cluster.apply(
        manifests.formation("kill", namespace, script), manifests.mission("kill", namespace)
    )
    wait_until(
        lambda: cluster.get("job", "kill-a1", namespace),
        lambda job: (job or {}).get("status", {}).get("ready") == 1,
        description="running Job",
    )
    uid = (cluster.get("job", "kill-a1", namespace) or {})["metadata"]["uid"]
    cluster.kill(OPERATOR)

    mission = cluster.finished_mission("kill", namespace)

    assert mission["status"]["outcome"] == "Succeeded"
    assert [j["metadata"]["uid"] for j in cluster.list("job", namespace)] == [uid]
    with cluster.store(namespace) as store:
        runs = store.list_runs(namespace=namespace).runs
        facts = store.list_facts(scope=f"realm:{namespace}/formation:kill").facts
    assert [(r.run_id, r.outcome) for r in runs] == [(mission["status"]["runId"], "Succeeded")]
    assert "NoRouteToHost 10.9.8.7" in " ".join(f.content for f in facts)
    assert max(Counter(f.content for f in facts).values()) == 1


@alone
def test_service_killed_between_accepting_and_finishing_an_extraction_stores_each_fact_once(
    cluster: Installed, namespace: str
) -> None:
    cluster.apply(manifests.formation("twice", namespace, FAILS_TWICE))
    for number in range(3):  # the moment differs from round to round
        name = f"twice-{number}"
        cluster.apply(manifests.mission(name, namespace, formation="twice"))
        wait_until(
            partial(cluster.get, "mission", name, namespace),
            lambda mission: conditions(mission).get("Recorded", {}).get("status") == "True",
            description="accepted extraction",
        )
        cluster.kill(KNOWLEDGE)
        cluster.finished_mission(name, namespace)
    with cluster.store(namespace) as store:
        facts = store.list_facts(scope=f"realm:{namespace}/formation:twice").facts
    contents = Counter(f.content for f in facts if "NoRouteToHost" in f.content)
    assert contents
    assert set(contents.values()) == {1}


@alone
def test_store_down_during_a_mission_delays_its_facts_and_nothing_else(
    cluster: Installed, namespace: str
) -> None:
    (store_set,) = cluster.list("statefulset", KAIS_NAMESPACE, KNOWLEDGE)
    target = f"statefulset/{store_set['metadata']['name']}"
    cluster.apply(manifests.formation("alone", namespace, "raise SystemExit('no route')"))
    wait_until(
        lambda: conditions(cluster.get("formation", "alone", namespace)),
        lambda object_conditions: object_conditions.get("Ready", {}).get("status") == "True",
        description="ready Formation",
    )
    cluster.kubectl("scale", target, "-n", KAIS_NAMESPACE, "--replicas=0")
    cluster.kubectl(
        "wait", "pod", "-l", KNOWLEDGE, "-n", KAIS_NAMESPACE, "--for=delete", "--timeout=60s"
    )
    try:
        cluster.apply(manifests.mission("alone", namespace, completion={"maxAttempts": 1}))
        waiting = wait_until(
            lambda: cluster.get("mission", "alone", namespace),
            lambda body: (body or {}).get("status", {}).get("outcome") == "Failed",
            description="failed mission without a store",
        )
        assert conditions(waiting)["KnowledgeExtracted"]["status"] == "False"
        wait_until(
            lambda: conditions(cluster.get("mission", "alone", namespace)),
            lambda object_conditions: object_conditions["Recorded"]["reason"] == "StoreUnavailable",
            description="condition that says the store is away",
        )
    finally:
        cluster.kubectl("scale", target, "-n", KAIS_NAMESPACE, "--replicas=1")
        cluster.kubectl("rollout", "status", target, "-n", KAIS_NAMESPACE, "--timeout=90s")
    mission = cluster.finished_mission("alone", namespace)
    with cluster.store(namespace) as store:
        (run,) = store.list_runs(namespace=namespace).runs
    assert (run.run_id, run.outcome) == (mission["status"]["runId"], "Failed")


@alone
def test_wiped_status_and_a_restarted_operator_give_the_same_statistics(
    cluster: Installed, namespace: str
) -> None:
    cluster.apply(manifests.blueprint("plain", namespace))
    for _ in range(2):
        completed = cluster.kais("blueprint", "use", "plain", "-n", namespace)
        assert completed.returncode == 0, completed.stdout + completed.stderr
    status_before = wait_until(
        lambda: statistics(cluster.get("bp", "plain", namespace)),
        lambda status: status["succeeded"] == 2,
        description="two successes",
    )
    jobs = {j["metadata"]["uid"] for j in cluster.list("job", namespace)}
    for kind in ("bp", "bpr", "bpi", "fm", "cl", "ms"):
        for body in cluster.list(kind, namespace):
            name = body["metadata"]["name"]
            wipe = ["--subresource=status", "--type=merge", "-p", '{"status": null}']
            cluster.kubectl("patch", kind, name, "-n", namespace, *wipe)
    restart_operator(cluster)
    status_after = wait_until(
        lambda: statistics(cluster.get("bp", "plain", namespace)),
        lambda status: status["succeeded"] is not None,
        description="statistics after the wipe",
    )
    assert status_after == status_before
    assert (cluster.get("bp", "plain", namespace) or {})["status"]["servedRevision"] == 1
    assert {j["metadata"]["uid"] for j in cluster.list("job", namespace)} == jobs


def test_saved_objects_deleted_and_applied_again_run_nothing_twice_and_numbers_go_on(
    cluster: Installed, namespace: str
) -> None:
    cluster.apply(manifests.blueprint("saved", namespace))
    completed = cluster.kais("blueprint", "use", "saved", "-n", namespace, "--name", "saved-once")
    assert completed.returncode == 0, completed.stdout + completed.stderr
    cluster.finished_mission("saved-once", namespace)
    saved = cluster.kubectl("get", "bp,bpr,bpi,fm,cl,ms", "-n", namespace, "-o", "yaml")
    cluster.kubectl("delete", "bpi,fm,cl,ms,bp,bpr", "--all", "-n", namespace, "--wait=true")
    wait_until(
        lambda: cluster.list("job", namespace) + cluster.list("bpr", namespace),
        lambda remaining: remaining == [],
        description="empty namespace",
    )
    # The operator may make a child anew before its saved copy arrives: restoring skips that one.
    apply_result = cluster.kubectl("apply", "-f", "-", stdin=saved, check=False)
    errors = [line for line in apply_result.splitlines() if line.startswith("Error from server")]
    late = ("(AlreadyExists)", "(Conflict)")
    assert [line for line in errors if not any(reason in line for reason in late)] == []

    mission = wait_until(
        lambda: cluster.get("mission", "saved-once", namespace),
        lambda body: (body or {}).get("status", {}).get("phase") == "Succeeded",
        description="mission that reports its old outcome",
    )
    time.sleep(10)  # a second run would have started by now
    assert cluster.list("job", namespace) == []
    assert mission is not None
    with cluster.store(namespace) as store:
        assert len(store.list_runs(namespace=namespace).runs) == 1
    edit = '{"spec": {"description": "edited after the restore"}}'
    cluster.kubectl("patch", "bp", "saved", "-n", namespace, "--type=merge", "-p", edit)
    names = wait_until(
        lambda: [r["metadata"]["name"] for r in cluster.list("bpr", namespace)],
        lambda revision_names: "saved-r00002" in revision_names,
        description="second revision",
    )
    assert set(names) <= {"saved-r00001", "saved-r00002"}
    assert statistics(cluster.get("bp", "saved", namespace))["usageCount"] == 1


@pytest.mark.last
def test_what_operator_and_service_do_is_never_refused_by_the_api_server(
    cluster: Installed,
) -> None:
    acting = audit.read_entries(cluster)
    assert any(e["verb"] == "create" and e["objectRef"]["resource"] == "jobs" for e in acting)
    assert audit.unexpected_refusals(cluster) == []
