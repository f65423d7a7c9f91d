"""A namespace that is deleted goes within a minute, whatever is away meanwhile; no run stays open.

Without a node nobody ends pods, so the missions here have none yet: their Jobs wait for a quota.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import ControlPlane
from tests.cluster.processes import Cluster, Operator, free_port, wait_for
from tests.fakes import teams

pytestmark = pytest.mark.cluster
_PROBLEM = {"title": "quota", "status": 429, "detail": "too many requests", "code": "quota"}
_ANSWERS: dict[str, tuple[int, bytes] | None] = {
    "refuses": (429, json.dumps(_PROBLEM).encode()),
    "hangs": None,
}
QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "no-pods"},
    "spec": {"hard": {"count/pods": "0"}},
}


def every_kind() -> list[dict[str, Any]]:
    """Give objects of each kind that a user writes; revisions and children are made of them."""
    cell = {"name": "lead", "spec": teams.task()}
    service = {"mode": "Service", "container": {"image": "w:1", "ports": [{"containerPort": 80}]}}
    fields = {"objective": "explain", "entrypoint": {"cell": "lead"}}
    created = (
        teams.team(),
        teams.work(),
        teams.scope(deletionPolicy="Delete"),
        teams.thing("Cell", "alone", spec=service),
        teams.thing("Blueprint", "plan", spec={"formation": {"cells": [cell]}, "mission": fields}),
        teams.thing("BlueprintInstance", "use", spec={"blueprintRef": {"name": "plan"}}),
    )
    return [{**item, "metadata": {"name": item["metadata"]["name"]}} for item in created]


def runs(store_url: str, namespace: str) -> list[dict[str, Any]]:
    url = f"{store_url}/v1/runs?namespace={namespace}"
    with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - our own service
        return list(json.load(answer)["runs"])


def all_ended(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return results if all(run.get("outcome") for run in results) else []


class _Unwilling(BaseHTTPRequestHandler):
    """A store that takes nothing: its server has the answer, None for none at all."""

    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        answer: tuple[int, bytes] | None = self.server.answer  # type: ignore[attr-defined]
        if answer is None:
            self.server.ended.wait(60)  # type: ignore[attr-defined]
            self.close_connection = True
            return
        self.send_response(answer[0])
        self.send_header("Content-Length", str(len(answer[1])))
        self.end_headers()
        self.wfile.write(answer[1])

    do_GET = do_PUT = do_POST = do_DELETE = do_PATCH = _answer  # noqa: N815 - of the base class

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - of the base class
        """Write nothing."""


@pytest.fixture
def away(store: str) -> Iterator[str | None]:
    """Give the address of a store that takes nothing; None for the one that is there."""
    if store not in _ANSWERS:
        yield None if store == "there" else f"http://127.0.0.1:{free_port()}"
        return
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Unwilling)
    server.daemon_threads = True
    server.answer, server.ended = _ANSWERS[store], threading.Event()  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.ended.set()  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("store", ["there", "away", "refuses", "hangs"])
@pytest.mark.parametrize("operator", ["up", "down, then up"])
def test_a_namespace_with_every_kind_and_missions_under_way_goes_within_a_minute(
    control_plane: ControlPlane,
    cluster: Cluster,
    store_url: str,
    tmp_path: Path,
    operator: str,
    away: str | None,
) -> None:
    home = f"{cluster.namespace}-home"
    control_plane.kubectl("create", "namespace", home)

    def start(url: str, name: str) -> Operator:
        new_operator = Operator(
            control_plane.kubeconfig,
            namespace=home,
            namespaces="",
            store_url=url,
            log=tmp_path / f"{name}.log",
        )
        new_operator.wait_ready()
        return new_operator

    running = start(store_url, "first")
    try:
        cluster.apply(QUOTA)
        cluster.apply(*every_kind())
        wait_for(lambda: cluster.get("jobs", "doctor-a1"), subject="the first attempt")
        use = "the first attempt of the use"
        wait_for(lambda: cluster.get("jobs", "use-a1"), subject=use)
        wait_for(lambda: cluster.items("bpr"), subject="a revision")
        wait_for(lambda: cluster.items("deployments"), subject="the service cell's Deployment")
        if operator != "up" or away is not None:
            running.end()
        if operator == "up" and away is not None:
            running = start(away, "second")
        control_plane.kubectl("delete", "namespace", cluster.namespace, "--wait=false")
        if operator != "up":
            time.sleep(3)
            blocked = cluster.get("missions", "doctor")
            assert blocked is not None
            assert blocked["metadata"]["finalizers"] == ["kais.io/finalizer"]
            wait_for(
                lambda: "kais.io/finalizer" in _words(control_plane, cluster.namespace),
                subject="the namespace names what it waits for",
            )
            running = start(away or store_url, "second")
        started_at = time.monotonic()
        wait_for(
            lambda: not _is_there(control_plane, cluster.namespace),
            subject="the namespace is gone",
            within_s=60,
        )
        assert time.monotonic() - started_at < 60
        if away is not None:
            outbox = control_plane.kubectl("get", "configmaps", "-n", home, "-o", "name")
            assert "kais-outbox-" in outbox
            running.end()
            running = start(store_url, "third")
        ended = wait_for(
            lambda: all_ended(runs(store_url, cluster.namespace)),
            subject=f"both runs' ends are recorded: {runs(store_url, cluster.namespace)}",
        )
        assert [run["outcome"] for run in ended] == ["Cancelled", "Cancelled"]
    finally:
        running.kill()


def _words(control_plane: ControlPlane, namespace: str) -> str:
    document = json.loads(control_plane.kubectl("get", "namespace", namespace, "-o", "json"))
    return json.dumps(document["status"].get("conditions"))


def _is_there(control_plane: ControlPlane, namespace: str) -> bool:
    return f"namespace/{namespace}" in control_plane.kubectl("get", "ns", "-o", "name").split()
