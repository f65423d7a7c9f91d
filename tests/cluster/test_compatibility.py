"""Objects that an earlier version left on a real API server, and the operator of today over them.

`data/objects.json.xz` is a namespace as the operator of commit 573ae85 left it, on a real API
server. It is written into etcd, so that every object has the UID and the field managers it had.
"""

from __future__ import annotations

import base64
import json
import lzma
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from kais import labels
from kais_operator.clock import SystemClock
from tests.cluster.conftest import ControlPlane, started_control_plane
from tests.cluster.processes import Cluster, Operator, wait_for

pytestmark = pytest.mark.cluster

OBJECTS = Path(__file__).with_name("data") / "objects.json.xz"
NAMESPACE = "demo"
ENDED = {"use-ended", "succeeded", "extracting", "failed", "aborted"}
AT_WORK = {"running": 1, "second-attempt": 2, "use-running": 1, "again": 1}
NEXT_ATTEMPT = "between-jobs"
"""Its first attempt ended while no operator looked, so its second is due."""
CREATED_OBJECTS = {
    f"jobs/{NEXT_ATTEMPT}-a2",
    f"configmaps/{NEXT_ATTEMPT}-a2-knowledge",
    # The recording made no pass over the namespace itself, which is what makes this one.
    "serviceaccounts/kais-user",
}
"""All that may be new."""
KAIS_KINDS = ("bp", "bpr", "bpi", "formations", "cells", "missions", "knowledgescopes")
CHILDREN = ("jobs", "deployments", "services", "serviceaccounts", "configmaps")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_PREFIXES = {
    "Job": "jobs", "Pod": "pods", "Deployment": "deployments", "ReplicaSet": "replicasets",
    "Service": "services/specs", "ConfigMap": "configmaps", "ServiceAccount": "serviceaccounts",
    "PersistentVolumeClaim": "persistentvolumeclaims", "Lease": "leases",
}  # fmt: skip


def recorded() -> dict[str, Any]:
    """Read the file, with all its times moved as if it had been recorded now."""
    text = lzma.decompress(OBJECTS.read_bytes()).decode()
    moved = SystemClock().now() - moment(json.loads(text)["recorded_at"])

    def later(match: re.Match[str]) -> str:
        at = moment(match[0]) + moved
        return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if match[1] else "%Y-%m-%dT%H:%M:%SZ")

    return dict(json.loads(_TIME.sub(later, text)))


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def key_of(body: dict[str, Any]) -> str:
    """Give where etcd has an object."""
    metadata, kind = body["metadata"], body["kind"]
    folder = _PREFIXES.get(kind) or f"kais.io/{kind.lower()}s"
    return f"/registry/{folder}/{metadata['namespace']}/{metadata['name']}"


def put(plane: ControlPlane, body: dict[str, Any]) -> None:
    """Write an object as it is into etcd."""
    pid = plane.host.processes.pid("kube-apiserver")
    command = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    (server,) = (word.partition("=")[2] for word in command if word.startswith("--etcd-servers="))
    metadata = {k: v for k, v in body["metadata"].items() if k != "resourceVersion"}
    value = json.dumps({**body, "metadata": metadata}).encode()
    pair = {"key": key_of(body).encode(), "value": value}
    data = {name: base64.b64encode(content).decode() for name, content in pair.items()}
    httpx.post(f"{server}/v3/kv/put", json=data).raise_for_status()


def tell_store(url: str, recorded_objects: dict[str, Any]) -> None:
    """Have the store know what the earlier operator told it."""
    for run in recorded_objects["runs"]:
        made_by_store = ("run_id", "opened_at", "closed_at")
        body = {name: value for name, value in run.items() if name not in made_by_store}
        ask(f"{url}/v1/runs/{run['run_id']}", "PUT", body)
    for extraction in recorded_objects["extractions"]:
        body = {"run_id": extraction["run_id"], "namespace": NAMESPACE}
        ask(f"{url}/v1/extractions", "POST", body)


def ask(url: str, method: str, body: Any = None) -> Any:
    return httpx.request(method, url, json=body).raise_for_status().json()


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz").is_success
    except httpx.TransportError:
        return False


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """Run a control plane of its own: the objects keep the namespace that they had."""
    with started_control_plane() as started:
        started.kubectl("create", "namespace", NAMESPACE)
        yield started


@pytest.fixture
def cluster(plane: ControlPlane) -> Cluster:
    return Cluster(plane.kubectl, plane.lister, NAMESPACE)


def identities(cluster: Cluster, *kinds: str) -> dict[str, tuple[str, int, str]]:
    """Give UID, generation and spec of every object of some kinds."""
    return {
        name: (
            body["metadata"]["uid"],
            body["metadata"].get("generation", 0),
            json.dumps([body.get(part) for part in ("spec", "data")], sort_keys=True),
        )
        for name, body in cluster.bodies(*kinds).items()
    }


def run_ids(cluster: Cluster) -> dict[str, str | None]:
    return {
        body["metadata"]["name"]: body["metadata"]["annotations"].get(labels.RUN_ID)
        for body in cluster.items("missions")
    }


def test_no_mission_of_an_earlier_version_begins_twice_and_what_runs_goes_on(
    plane: ControlPlane, cluster: Cluster, store_url: str, tmp_path: Path
) -> None:
    recorded_objects = recorded()
    wait_for(lambda: is_ready(store_url), subject="the store answers")
    tell_store(store_url, recorded_objects["store"])
    for body in recorded_objects["objects"]:
        put(plane, body)
    wait_for(
        lambda: len(cluster.items("missions")) == len(run_ids_of(recorded_objects)),
        subject="all are listed",
    )
    objects_before, runs_before = identities(cluster, *KAIS_KINDS, *CHILDREN), run_ids(cluster)
    ended_before = {name: ending(cluster, name) for name in ENDED - {"extracting"}}
    assert runs_before == run_ids_of(recorded_objects)
    operator = Operator(
        plane.kubeconfig, namespace=NAMESPACE, namespaces=NAMESPACE, store_url=store_url,
        log=tmp_path / "operator.log",
    )  # fmt: skip
    try:
        operator.wait_ready()
        finish(cluster, {**AT_WORK, NEXT_ATTEMPT: 2})
        wait_for(
            lambda: condition_of(cluster, "extracting", "KnowledgeExtracted") == "True",
            subject="the extraction that was waited for is noted",
        )
        assert operator.metric('kais_reconcile_total{kind="Mission",result="error"}') == 0
        objects_after = identities(cluster, *KAIS_KINDS, *CHILDREN)
        new_objects = objects_after.keys() - objects_before.keys()
        assert new_objects == CREATED_OBJECTS
        kept = {
            name: each
            for name, each in objects_before.items()
            if not name.startswith("configmaps/")
        }
        assert {name: objects_after[name] for name in kept} == kept
        assert run_ids(cluster) == runs_before
        for name, status in ended_before.items():
            assert ending(cluster, name) == status, name
        check_ledger(store_url, recorded_objects, runs_before)
    finally:
        operator.kill()


def run_ids_of(recorded_objects: dict[str, Any]) -> dict[str, str | None]:
    return {
        body["metadata"]["name"]: body["metadata"]["annotations"].get(labels.RUN_ID)
        for body in recorded_objects["objects"]
        if body["kind"] == "Mission"
    }


def ending(cluster: Cluster, mission: str) -> dict[str, Any]:
    """Give how a Mission ended, without what was learnt from it.

    The store of this test extracts by itself, so it learns something else than the recorded one.
    Messages of earlier versions began with the outcome, also where the reason says it.
    """
    status = cluster.status("missions", mission)
    message = status["message"].removeprefix(f"{status['outcome']}: ")
    conditions = [
        (condition["type"], condition["status"], condition["reason"])
        for condition in status["conditions"]
        if condition["type"] != "KnowledgeExtracted"
    ]
    counted = ("display", "knowledge", "conditions")
    compared = {name: value for name, value in status.items() if name not in counted}
    return {**compared, "message": message, "conditions": conditions}


def condition_of(cluster: Cluster, mission: str, type_: str) -> str:
    return str(cluster.condition("missions", mission, type_).get("status"))


def finish(cluster: Cluster, attempts: dict[str, int]) -> None:
    """End the work of Missions as the kubelet does, and wait until they are recorded."""
    for name, attempt in attempts.items():
        selector = f"job-name={name}-a{attempt}"
        (pod,) = wait_for(
            lambda s=selector: cluster.items("pods", labels=s),
            subject=f"a pod of {selector}",
        )
        cluster.finish_pod(pod, exit_code=0, message="two pods explained")
    for name, attempt in attempts.items():
        wait_for(
            lambda n=name: condition_of(cluster, n, "Recorded") == "True",
            subject=f"{name} is recorded",
        )
        status = cluster.status("missions", name)
        assert (status["outcome"], status["attempt"]) == ("Succeeded", attempt), status


def check_ledger(url: str, recorded_objects: dict[str, Any], runs: dict[str, str | None]) -> None:
    """Expect that every run is the one of then, and closed once where its Mission has ended."""
    ledger = {run["run_id"]: run for run in ask(f"{url}/v1/runs?limit=200", "GET")["runs"]}
    runs_by_id = {run["run_id"]: run for run in recorded_objects["store"]["runs"]}
    assert ledger.keys() == runs_by_id.keys()
    for run_id, run in runs_by_id.items():
        if run.get("outcome"):
            assert ledger[run_id]["outcome"] == run["outcome"]
    for name, attempt in {**AT_WORK, NEXT_ATTEMPT: 2}.items():
        run = ledger[str(runs[name])]
        assert (run["mission"], run["outcome"], run["attempts"]) == (name, "Succeeded", attempt)
