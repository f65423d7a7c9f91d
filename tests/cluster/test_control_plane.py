import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from kais_cluster.host import ephemeral

pytestmark = pytest.mark.cluster


def test_objects_are_accepted_and_read_back(control_plane, namespace):
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}}
    control_plane.apply(json.dumps({**manifest, "data": {"k": "v"}}), namespace=namespace)
    read = control_plane.kubectl("get", "configmap", "kept", "-n", namespace, "-o", "json")
    assert json.loads(read)["data"] == {"k": "v"}


def test_audit_log_names_who_wrote_what(control_plane, namespace):
    control_plane.kubectl("create", "configmap", "seen", "-n", namespace)
    deadline = time.monotonic() + 10
    lines: list[dict[str, object]] = []
    while not lines and time.monotonic() < deadline:
        entries = map(json.loads, control_plane.audit_log.read_text().splitlines())
        lines = [
            entry
            for entry in entries
            if entry["verb"] == "create"
            and entry.get("objectRef", {}).get("name") == "seen"
            and entry["objectRef"]["namespace"] == namespace
        ]
    assert lines[0]["user"]["username"] == "kubernetes-admin"
    assert lines[0]["stage"] == "ResponseComplete"
    assert "requestObject" not in lines[0]


def test_garbage_collection_is_real(control_plane, namespace):
    control_plane.kubectl("create", "deployment", "parent", "--image=none", "-n", namespace)
    get = ("get", "replicasets", "-n", namespace, "-o", "name")
    deadline = time.monotonic() + 20
    while not control_plane.kubectl(*get) and time.monotonic() < deadline:
        time.sleep(0.2)
    control_plane.kubectl("delete", "deployment", "parent", "-n", namespace)
    while control_plane.kubectl(*get) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert control_plane.kubectl(*get) == ""


def test_control_planes_run_side_by_side(control_plane):
    with ephemeral.control_plane() as other_host_cluster:
        server = other_host_cluster.kubectl(
            "config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"
        )
        assert server != control_plane.server
        control_plane.kubectl("create", "namespace", "only-here")
        names = other_host_cluster.kubectl("get", "namespaces", "-o", "name")
        assert "only-here" not in names
    assert not other_host_cluster.directory.exists()
    assert control_plane.host.is_up()


def test_control_plane_of_a_killed_run_is_found_and_stopped():
    folder = Path(tempfile.mkdtemp(prefix="kais-"))
    script = (
        "import pathlib, sys, time; from kais_cluster.host import ephemeral\n"
        "with ephemeral.control_plane(parent=pathlib.Path(sys.argv[1])): time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(folder)], stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        assert "up in" in run.stdout.readline()
        run.kill()
    (remaining_path,) = folder.iterdir()
    messages: list[str] = []
    ephemeral.stop_orphans(folder, report=messages.append)
    assert (
        messages[0]
        == f"stopping the control plane that an earlier run left behind in {remaining_path}"
    )
    assert not remaining_path.exists()
    folder.rmdir()
