"""Every command of the documents, typed as they stand."""

import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.support import documents
from e2e.support.installed import Installed

pytestmark = pytest.mark.e2e


def runnable() -> list[object]:
    """Documents with commands; one that stops the service for all runs alone."""
    scripts = {path: documents.script(path) for path in documents.paths()}
    return [
        pytest.param(
            path,
            marks=[pytest.mark.alone] * ("kubectl scale" in script),
            id=str(path.relative_to(documents.ROOT)),
        )
        for path, script in scripts.items()
        if script
    ]


@pytest.fixture
def desk(cluster: Installed, tmp_path: Path) -> dict[str, str]:
    """The environment of a reader: our kubectl and kais first in PATH, the cluster's kubeconfig."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "kubectl").symlink_to(cluster.kubectl_path)
    host_programs = Path(sys.executable).parent
    return os.environ | {
        "PATH": f"{programs}:{host_programs}:{os.environ['PATH']}",
        "KUBECONFIG": str(cluster.kubeconfig),
        "KUBECACHEDIR": str(cluster.cache),
        "NO_COLOR": "1",
        "ANTHROPIC_API_KEY": "a key that no provider gets",
    }


@pytest.mark.parametrize("path", runnable())
def test_commands_of_a_document_work_as_they_stand(
    path: Path, cluster: Installed, desk: dict[str, str], tmp_path: Path
) -> None:
    script = documents.in_fresh_namespaces(documents.script(path), secrets.token_hex(3))
    objects = documents.namespaces(script)
    folder = tmp_path / "reader"
    shutil.copytree(path.parent, folder, ignore=shutil.ignore_patterns("*.md", "decisions"))
    for name, text in documents.files(path).items():
        (folder / name).write_text(text)
    objects += [documents.READER] * documents.needs_mission(path)
    for namespace in objects:
        cluster.kubectl("delete", "namespace", namespace, "--ignore-not-found", "--wait")
    if documents.needs_mission(path):
        cluster.kubectl("create", "namespace", documents.READER)
        team = documents.ROOT / "examples/bring-your-own-image/team.yaml"
        cluster.kubectl("apply", "-n", documents.READER, "-f", str(team))
    try:
        completed = subprocess.run(
            ["bash", "-euxo", "pipefail", "-c", script],
            cwd=folder,
            env=desk,
            text=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=600,
            check=False,
        )
        assert completed.returncode == 0, f"{completed.stdout[-6000:]}\n{completed.stderr[-3000:]}"
    finally:
        for namespace in objects:
            cluster.kubectl("delete", "namespace", namespace, "--ignore-not-found", "--wait=false")
