"""Kubeconfigs with two contexts, on two clusters: which one a command means, and what it leaves."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kais_cluster import errors, operations, settings
from kais_cluster.providers import NamedCluster
from tests.cluster.conftest import ControlPlane, started_control_plane
from tests.cluster.processes import SCRIPTS, Operator, wait_for

pytestmark = pytest.mark.cluster

Body = dict[str, Any]


@dataclass(frozen=True)
class Two:
    """Two clusters: the first has Blueprint one/here, the second two/there."""

    first: ControlPlane
    second: ControlPlane
    folder: Path

    @property
    def merged(self) -> Path:
        """One file with contexts `one` and `two`; `one` is the current one."""
        parts = [_renamed(self.first, "one"), _renamed(self.second, "two")]
        full_fields = {
            key: [entry for part in parts for entry in part[key]]
            for key in ("clusters", "contexts", "users")
        }
        path = self.folder / "merged.json"
        head = {"apiVersion": "v1", "kind": "Config", "current-context": "one"}
        path.write_text(json.dumps(head | full_fields))
        return path

    @property
    def apart(self) -> str:
        """Two files, joined as KUBECONFIG joins them; the context of the first is current."""
        paths = []
        for plane, name in ((self.first, "one"), (self.second, "two")):
            path = self.folder / f"{name}.json"
            path.write_text(json.dumps(_renamed(plane, name)))
            paths.append(str(path))
        return ":".join(paths)


def _renamed(plane: ControlPlane, name: str) -> Body:
    """Give the kubeconfig of a cluster with everything in it named `name`."""
    config = json.loads(plane.kubectl("config", "view", "--raw", "--minify", "-o", "json"))
    config["clusters"][0]["name"] = config["users"][0]["name"] = name
    context = {"cluster": name, "user": name, "namespace": name}
    return config | {
        "contexts": [{"name": name, "context": context}],
        "current-context": name,
    }


@pytest.fixture(scope="module")
def two(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    with started_control_plane() as second:
        for plane, name, there in ((control_plane, "one", "here"), (second, "two", "there")):
            plane.apply(json.dumps(namespace(name)))
            plane.apply(json.dumps(blueprint(there)), namespace=name)
        yield Two(control_plane, second, tmp_path_factory.mktemp("contexts"))


def namespace(name: str) -> Body:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def blueprint(name: str) -> Body:
    cell = {"name": "a", "spec": {"mode": "Task", "container": {"image": "example/task:1"}}}
    return {
        "apiVersion": "kais.io/v1",
        "kind": "Blueprint",
        "metadata": {"name": name},
        "spec": {"formation": {"cells": [cell]}},
    }


def formation() -> Body:
    return {
        "apiVersion": "kais.io/v1",
        "kind": "Formation",
        "metadata": {"name": "team"},
        "spec": blueprint("any")["spec"]["formation"],
    }


def kais(*arguments: str, kubeconfig: str) -> subprocess.CompletedProcess[str]:
    env = settings.environment() | {"KUBECONFIG": kubeconfig}
    command = [str(SCRIPTS / "kais"), *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def listed(*arguments: str, kubeconfig: str) -> str:
    process = kais("blueprint", "list", "-o", "name", *arguments, kubeconfig=kubeconfig)
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


@pytest.mark.parametrize("kind", ["merged", "apart"])
def test_a_command_means_the_current_context_or_the_one_that_is_named(two: Two, kind: str):
    config = str(getattr(two, kind))
    assert listed(kubeconfig=config) == "blueprint.kais.io/here"
    assert listed("--context", "two", kubeconfig=config) == "blueprint.kais.io/there"
    assert listed("--context", "two", "-n", "one", kubeconfig=config) == ""


def test_an_option_names_the_file_before_the_environment(two: Two):
    merged = str(two.merged)
    result = listed("--kubeconfig", merged, "--context", "two", kubeconfig="/nowhere")
    assert result == "blueprint.kais.io/there"


def test_a_context_that_is_not_there_is_named(two: Two):
    process = kais("blueprint", "list", "--context", "three", kubeconfig=str(two.merged))
    assert process.returncode != 0
    assert "three" in process.stderr
    assert "Traceback" not in process.stderr


def test_a_change_is_made_in_the_context_that_is_named_and_nowhere_else(two: Two):
    for plane, name in ((two.first, "one"), (two.second, "two")):
        plane.apply(json.dumps(formation()), namespace=name)
    scale = ("formation", "scale", "team", "--cell", "a", "--replicas", "3")
    process = kais(*scale, "--context", "two", kubeconfig=str(two.merged))
    assert process.returncode == 0, process.stderr
    replicas = "jsonpath={.spec.cells[0].replicas}"
    assert two.second.kubectl("get", "fm", "team", "-n", "two", "-o", replicas) == "3"
    assert two.first.kubectl("get", "fm", "team", "-n", "one", "-o", replicas) == "1"


@pytest.mark.parametrize("kind", ["merged", "apart"])
def test_the_operator_serves_the_current_context(two: Two, kind: str, tmp_path: Path):
    operator = Operator(
        Path(str(getattr(two, kind))),
        namespace="one",
        namespaces="one",
        store_url="http://127.0.0.1:9",
        log=tmp_path / "log",
    )
    try:
        wait_for(operator.leads, subject=f"the operator leads: {operator.log}")
        lease = "jsonpath={.spec.holderIdentity}"
        held = two.first.kubectl("get", "lease", "kais-operator", "-n", "one", "-o", lease)
        assert held.endswith(f"_{operator.pid}")
        with pytest.raises(errors.CommandFailed, match="not found"):
            two.second.kubectl("get", "lease", "kais-operator", "-n", "one", "-o", lease)
    finally:
        assert operator.end() == 0


def test_a_cluster_that_is_named_on_purpose_is_used_and_left_alone(
    two: Two, monkeypatch: pytest.MonkeyPatch
):
    messages: list[str] = []
    monkeypatch.setenv("KAIS_E2E_KUBECONFIG", str(two.merged))
    provider = operations.current_cluster(report=messages.append)
    assert isinstance(provider, NamedCluster)
    provider.up(no_node=True)
    assert provider.status().answers
    assert "here" in provider.kubectl("get", "bp", "-o", "name")
    provider.down()
    assert provider.status().answers
    assert messages[-1].startswith("left alone: the cluster of ")


def test_a_cluster_that_is_named_and_does_not_answer_is_told(tmp_path: Path, two: Two):
    config = json.loads(two.merged.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    path = tmp_path / "away.json"
    path.write_text(json.dumps(config))
    named_cluster = NamedCluster(path, settings.binaries_dir(), lambda _: None)
    with pytest.raises(errors.NotRunning, match="does not answer"):
        named_cluster.up(no_node=True)
