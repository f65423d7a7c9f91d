"""The chart with the values of an earlier chart, and beside another release."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.cluster.conftest import ControlPlane

CHART = Path(__file__).parents[2] / "charts" / "kais"


@pytest.mark.parametrize("absent", ["operator.renderer", "operator.renderer.resources"])
def test_the_chart_renders_the_same_without_the_values_that_a_former_chart_lacks(
    helm: Path, absent: str
) -> None:
    command = [helm, "template", "kais", CHART]
    full_process, partial = (
        subprocess.run([*command, *extra_items], capture_output=True, text=True, check=False)
        for extra_items in ([], ["--set", f"{absent}=null"])
    )

    assert partial.stderr == ""
    assert full_process.stdout
    assert list(yaml.safe_load_all(partial.stdout)) == list(yaml.safe_load_all(full_process.stdout))


@pytest.mark.parametrize("absent", ["knowledge.metrics", "knowledge.metrics.from"])
def test_metrics_without_peers_are_refused_because_they_would_be_open_to_all(
    helm: Path, absent: str
) -> None:
    refusal = run(helm, "template", "kais", CHART, "--set", f"{absent}=null").stderr
    assert "knowledge.metrics.from is empty, which would let every pod read the metrics" in refusal


def test_a_second_release_in_a_namespace_is_refused(
    control_plane: ControlPlane, helm: Path, namespace: str
) -> None:
    manifests = yaml.safe_load_all(run(helm, "template", "one", CHART, "-n", namespace).stdout)
    operator = next(
        body for body in manifests if body["kind"] == "Deployment" and "operator" in str(body)
    )
    owner = {"meta.helm.sh/release-name": "one", "meta.helm.sh/release-namespace": namespace}
    operator["metadata"]["annotations"] = owner
    control_plane.apply(json.dumps(operator), namespace=namespace)

    def install(release: str) -> subprocess.CompletedProcess[str]:
        options = ["-n", namespace, "--dry-run=server", "--kubeconfig", control_plane.kubeconfig]
        return run(helm, "install", release, CHART, *options)

    assert install("one").stderr == ""
    assert (
        f"the namespace {namespace} already has the release one of kais; install each release in a"
        " namespace of its own"
    ) in install("two").stderr


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)
