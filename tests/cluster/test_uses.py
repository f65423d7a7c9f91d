"""Blueprints and their uses with the real operator, API server and knowledge service.

There is no node: the Job controller makes pods, and the tests say what a kubelet would say of them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from kais_cluster import errors
from tests.cluster.processes import Cluster, Start, wait_for

pytestmark = pytest.mark.cluster

PARAMETERS = [
    {"name": "who", "type": "string", "default": "world"},
    {"name": "crew", "type": "integer", "default": 1, "min": 1, "max": 3},
    {"name": "tone", "type": "enum", "values": ["warm", "dry"], "default": "warm"},
]


def blueprint(name: str = "hello", *, image: str = "greeter:1", **spec: Any) -> dict[str, Any]:
    cell = {
        "name": "lead",
        "replicas": "{{ crew }}",
        "spec": {"mode": "Task", "container": {"image": image}},
    }
    full_fields = {
        "parameters": PARAMETERS,
        "formation": {"cells": [cell]},
        "mission": {
            "objective": "greet {{ who }}",
            "entrypoint": {"cell": "lead"},
            "completion": {"maxAttempts": 1},
        },
        **spec,
    }
    return _object("Blueprint", name, {k: v for k, v in full_fields.items() if v is not None})


def use(name: str, **spec: Any) -> dict[str, Any]:
    return _object("BlueprintInstance", name, {"blueprintRef": {"name": "hello"}, **spec})


def _object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name}
    return {"apiVersion": "kais.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


def patch(cluster: Cluster, kind: str, name: str, body: dict[str, Any]) -> None:
    cluster.kubectl("patch", kind, name, "--type=merge", "-p", json.dumps(body))


def pods(cluster: Cluster, *, but: frozenset[str] = frozenset()) -> list[dict[str, Any]]:
    """Give the pods that no kubelet has spoken of yet."""
    return [
        pod
        for pod in cluster.items("pods")
        if pod["status"].get("phase") == "Pending"
        and not pod["metadata"].get("deletionTimestamp")
        and pod["metadata"]["labels"]["kais.io/mission"] not in but
    ]


def finish(cluster: Cluster, name: str, *, exit_code: int = 0) -> None:
    """End the one attempt of a use."""
    results = wait_for(
        lambda: [p for p in pods(cluster) if p["metadata"]["labels"]["kais.io/mission"] == name],
        subject=f"a pod of {name}",
    )
    cluster.finish_pod(results[0], exit_code=exit_code, message="done")


def wait_status(
    cluster: Cluster, kind: str, name: str, within_s: float = 30, **expected: Any
) -> None:
    wait_for(
        lambda: {k: cluster.status(kind, name).get(k) for k in expected} == expected,
        subject=f"{kind}/{name} says {expected}: {cluster.status(kind, name)}",
        within_s=within_s,
    )


def stats(store_url: str, cluster: Cluster) -> dict[str, Any]:
    url = f"{store_url}/v1/stats/blueprints/{cluster.namespace}/hello"
    return dict(httpx.get(url, timeout=10).raise_for_status().json())


def test_fifty_creations_of_one_use_at_once_make_one_formation_and_one_run(
    cluster: Cluster, start: Start, store_url: str
):
    start().wait_ready()
    cluster.apply(blueprint())
    body = json.dumps(use("same"))

    def create(_: int) -> str:
        try:
            return cluster.kubectl("create", "-f", "-", stdin=body)
        except errors.CommandFailed as exc:
            return str(exc)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(create, range(50)))
    assert sum("same created" in answer for answer in answers) == 1
    assert sum("already exists" in answer for answer in answers) == 49
    finish(cluster, "same")
    wait_status(cluster, "bpi", "same", phase="Succeeded")
    assert len(cluster.items("formations")) == len(cluster.items("missions")) == 1
    assert len(cluster.items("jobs")) == 1
    assert stats(store_url, cluster)["uses"] == 1


def test_counts_are_exact_after_100_parallel_uses_reruns_kills_and_deletions(
    cluster: Cluster, start: Start, store_url: str
):
    operator = start()
    operator.wait_ready()
    cluster.apply(blueprint())
    names = [f"u{n:03}" for n in range(100)]
    tones = {name: ["warm", "dry"][n % 2] for n, name in enumerate(names)}
    cluster.apply(*(use(name, parameters={"tone": tones[name]}) for name in names))
    wait_for(lambda: len(cluster.items("jobs")) > 20, subject="some have begun")
    operator.kill()
    start(name="second").wait_ready()
    wait_for(lambda: len(pods(cluster)) == 100, subject="all have begun", within_s=120)

    aborted, deleted = frozenset(names[80:90]), frozenset(names[90:])
    cluster.kubectl("annotate", "missions", *sorted(aborted), "kais.io/abort=enough")
    cluster.kubectl("delete", "bpi", "--wait=false", *sorted(deleted))
    _finish_all(cluster, aborted | deleted, lambda name: int(name >= "u060"))
    wait_for(lambda: _ended(cluster) == 90, subject="90 have ended", within_s=120)

    rerun_names = names[:10]
    cluster.kubectl("annotate", "bpi", *rerun_names, "kais.io/rerun=2")
    wait_for(lambda: len(pods(cluster)) == 10, subject="ten run again")
    _finish_all(cluster, frozenset(), lambda name: int(name < "u005"))
    wait_for(lambda: _ended(cluster) == 90, subject="all have ended again")
    cluster.kubectl("delete", "bpi", "--wait=false", *names[:20])

    expected = {"uses": 110, "running": 0, "succeeded": 65, "failed": 25, "excluded": 20}
    wait_for(
        lambda: {k: stats(store_url, cluster)[k] for k in expected} == expected,
        subject=f"the ledger counts {expected}: {stats(store_url, cluster)}",
    )
    matching_stats = stats(store_url, cluster)
    assert matching_stats["success_rate"] == pytest.approx(65 / 90)
    assert matching_stats["interval"] == pytest.approx({"low": 0.6222, "high": 0.8042}, abs=1e-3)
    by_name = {p["name"]: p["values"] for p in matching_stats["parameters"]}
    assert {v["value"]: v["uses"] for v in by_name["tone"]} == {'"warm"': 55, '"dry"': 55}
    assert [(v["value"], v["uses"]) for v in by_name["who"]] == [('"world"', 110)]
    (revision,) = matching_stats["revisions"]
    assert (revision["revision"], revision["uses"]) == (1, 110)
    wait_status(
        cluster,
        *("bp", "hello", 90),
        usageCount=110,
        running=0,
        succeeded=65,
        failed=25,
        excluded=20,
        avgSuccessRate=0.7222,
    )


def _finish_all(cluster: Cluster, but: frozenset[str], code: Callable[[str], int]) -> None:
    def one(pod: dict[str, Any]) -> None:
        name = pod["metadata"]["labels"]["kais.io/mission"]
        cluster.finish_pod(pod, exit_code=code(name), message="done")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, pods(cluster, but=but)))


def _ended(cluster: Cluster) -> int:
    return sum(bool(i["status"].get("outcome")) for i in cluster.items("bpi") if "status" in i)


def test_a_blueprint_edited_and_deleted_in_mid_run_touches_nothing_of_it(
    cluster: Cluster, start: Start, store_url: str
):
    start().wait_ready()
    cluster.apply(blueprint(), use("one"))
    wait_for(lambda: pods(cluster), subject="it runs")
    initial_editions = _editions(cluster)
    cluster.apply(blueprint(image="greeter:2"))
    wait_status(cluster, "bp", "hello", servedRevision=2)
    cluster.kubectl("delete", "bp", "hello")
    time.sleep(3)
    assert _editions(cluster) == initial_editions
    finish(cluster, "one")
    wait_status(cluster, "bpi", "one", outcome="Succeeded", revisionInUse=1)
    wait_for(lambda: stats(store_url, cluster)["succeeded"] == 1, subject="it is counted")
    (revision,) = stats(store_url, cluster)["revisions"]
    assert (revision["revision"], revision["succeeded"]) == (1, 1)
    names = [r["metadata"]["name"] for r in cluster.items("bpr")]
    assert "hello-r00001" in names, "a use names it"
    cluster.apply(blueprint(image="greeter:3"))
    wait_status(cluster, "bp", "hello", latestRevision=3)


def _editions(cluster: Cluster) -> dict[str, tuple[str, int]]:
    """Give what is wanted of every object of a use: whose it is, and which edition of its spec."""
    return {
        f"{kind}/{item['metadata']['name']}": (
            item["metadata"]["uid"],
            item["metadata"].get("generation", 0),
        )
        for kind in ("formations", "missions", "cells", "jobs", "pods")
        for item in cluster.items(kind)
    }


def test_deleting_a_use_leaves_nothing_of_it_and_its_blueprint_as_it_was(
    cluster: Cluster, start: Start
):
    start().wait_ready()
    cluster.apply(blueprint(), use("one", parameters={"crew": 2}))
    wait_for(lambda: pods(cluster), subject="it runs")
    children = ("formations", "missions", "cells", "jobs", "pods", "configmaps", "serviceaccounts")
    manifest = {kind: _of_kais(cluster, kind) for kind in children}
    assert all(manifest.values()), manifest
    cluster.kubectl("delete", "bpi", "one")
    wait_for(
        lambda: not any(_of_kais(cluster, kind) for kind in children),
        subject="all its children are gone",
    )
    assert cluster.condition("bp", "hello", "Ready")["status"] == "True"


def _of_kais(cluster: Cluster, kind: str) -> list[str]:
    results = cluster.items(kind, labels="app.kubernetes.io/managed-by=kais")
    return [item["metadata"]["name"] for item in results if item["metadata"]["name"] != "kais-user"]


def test_a_pinned_use_renders_after_five_edits_with_two_kept(cluster: Cluster, start: Start):
    start().wait_ready()
    cluster.apply(blueprint(revisionHistoryLimit=2))
    wait_status(cluster, "bp", "hello", servedRevision=1)
    cluster.apply(use("pinned", blueprintRef={"name": "hello", "revision": 1}, suspend=True))
    for n in range(2, 7):
        cluster.apply(blueprint(image=f"greeter:{n}", revisionHistoryLimit=2))
        wait_status(cluster, "bp", "hello", servedRevision=n)
    patch(cluster, "bpi", "pinned", {"spec": {"suspend": False}})
    finish(cluster, "pinned")
    wait_status(cluster, "bpi", "pinned", outcome="Succeeded", revisionInUse=1)


def test_drift_of_a_formation_and_a_mission_is_undone(cluster: Cluster, start: Start):
    start().wait_ready()
    cluster.apply(blueprint(), use("one"))
    wait_for(lambda: pods(cluster), subject="it runs")
    expected = {k: (cluster.get(k, "one") or {}) for k in ("formations", "missions")}
    spec = {"cells": [{"name": "other", "spec": {"container": {"image": "evil:1"}}}]}
    patch(cluster, "formation", "one", {"spec": spec})
    cluster.kubectl("label", "formation", "one", "kais.io/revision=9", "--overwrite")
    cluster.kubectl(
        "label", "mission", "one", "kais.io/blueprint-", "kais.io/revision=9", "--overwrite"
    )
    for kind, body in expected.items():
        wait_for(
            lambda kind=kind, body=body: _same(cluster.get(kind, "one") or {}, body),  # type: ignore[misc]
            subject=f"{kind}/one is as it was: {cluster.get(kind, 'one')}",
        )
    wait_for(
        lambda: [c["metadata"]["name"] for c in cluster.items("cells")] == ["one-lead-0"],
        subject="the cell of the Blueprint alone",
    )


def _same(result: dict[str, Any], expected: dict[str, Any]) -> bool:
    labels = result["metadata"].get("labels") == expected["metadata"]["labels"]
    return bool(labels and result["spec"] == expected["spec"])


def test_an_automatic_use_moves_after_its_mission_and_stops_at_a_break(
    cluster: Cluster, start: Start
):
    start().wait_ready()
    cluster.apply(blueprint(), use("one", updatePolicy="Automatic"))
    wait_for(lambda: pods(cluster), subject="it runs")
    cluster.apply(blueprint(image="greeter:2"))
    wait_for(
        lambda: (
            "moves to revision 2" in cluster.condition("bpi", "one", "BlueprintResolved")["message"]
        ),
        subject="it waits",
    )
    finish(cluster, "one")
    wait_status(cluster, "bpi", "one", revisionInUse=2, outcome="Succeeded")
    wait_for(
        lambda: (
            (cluster.get("cells", "one-lead-0") or {})["spec"]["container"]["image"] == "greeter:2"
        ),
        subject="the cell follows its team",
    )
    assert len(cluster.items("jobs")) == 1, "an update starts no mission"
    stricter = [*PARAMETERS[:1], {**PARAMETERS[1], "default": 2}, PARAMETERS[2]]
    cluster.apply(blueprint(image="greeter:3", parameters=stricter))
    wait_for(
        lambda: "stops here" in cluster.condition("bpi", "one", "BlueprintResolved")["message"],
        subject="it stops",
    )
    assert cluster.condition("bpr", "hello-r00003", "Compatible")["reason"] == "BreakingChange"
    assert cluster.status("bpi", "one")["revisionInUse"] == 2


def is_replaced(cluster: Cluster, body: dict[str, Any]) -> bool:
    """Replace an object; False if the operator wrote to it between kubectl's read and its write."""
    try:
        cluster.kubectl("replace", "-f", "-", stdin=json.dumps(body))
    except errors.CommandFailed as exc:
        if "the object has been modified" not in str(exc):
            raise
        return False
    return True


def test_a_blueprint_whose_revision_etcd_would_refuse_says_its_size(cluster: Cluster, start: Start):
    start().wait_ready()
    cluster.apply(blueprint())
    wait_status(cluster, "bp", "hello", servedRevision=1)
    body = blueprint()
    body["metadata"] |= {"namespace": cluster.namespace}
    body["spec"]["formation"] |= {f"n{i}": "x" * 60_000 for i in range(24)}
    wait_for(lambda: is_replaced(cluster, body), subject="the Blueprint is replaced")
    wait_for(
        lambda: cluster.condition("bp", "hello", "Compiled").get("reason") == "TooLarge",
        subject=f"it says so: {cluster.status('bp', 'hello')}",
    )
    message = cluster.condition("bp", "hello", "Compiled")["message"]
    assert "bytes, the limit is 1400000" in message
    assert message.endswith("revision 1 keeps serving")
    assert len(cluster.items("bpr")) == 1


def test_a_canary_is_promoted_by_its_runs_across_a_kill_of_the_operator(
    cluster: Cluster, start: Start, store_url: str
):
    operator = start()
    operator.wait_ready()
    rollout = {"canaryPercent": 50, "minRuns": 3, "maxRuns": 6, "margin": 1.0}
    cluster.apply(blueprint(rollout=rollout))
    wait_status(cluster, "bp", "hello", servedRevision=1)
    cluster.apply(blueprint(image="greeter:2", rollout=rollout))
    wait_status(cluster, "bp", "hello", latestRevision=2, servedRevision=1)
    names = [f"u{n:02}" for n in range(24)]
    cluster.apply(*(use(name) for name in names))
    cluster.apply(use("pinned", blueprintRef={"name": "hello", "revision": 2}))
    wait_for(lambda: len(pods(cluster)) == 25, subject="all have begun", within_s=90)
    drawn = _revisions(cluster)
    assert drawn.pop("pinned") == "2"
    assert set(drawn.values()) == {"1", "2"}

    operator.kill()
    start(name="second").wait_ready()
    finish(cluster, "pinned", exit_code=1)
    _finish_all(cluster, frozenset(), lambda name: 0)
    wait_status(cluster, "bp", "hello", 90, servedRevision=2)
    condition = next(
        c for c in cluster.status("bp", "hello")["conditions"] if c["type"] == "RolledOut"
    )
    assert (condition["status"], condition["reason"]) == ("True", "Promoted")
    assert "revision 2 was promoted: revision 2:" in condition["message"]
    counted = f"/v1/stats/blueprints/{cluster.namespace}/hello?canary=2"
    answer = httpx.get(f"{store_url}{counted}", timeout=10).raise_for_status().json()
    assert sum(c["uses"] for c in answer["canary"]) == 24, "the pinned one drew no lot"
    assert _revisions(cluster) == {**drawn, "pinned": "2"}, "no use changes its revision"
    cluster.apply(use("later"))
    wait_status(cluster, "bpi", "later", revisionInUse=2)


def _revisions(cluster: Cluster) -> dict[str, str]:
    return {
        item["metadata"]["name"]: item["metadata"]["labels"]["kais.io/revision"]
        for item in cluster.items("bpi")
    }
