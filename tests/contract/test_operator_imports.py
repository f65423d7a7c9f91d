"""What the operator imports, in a process of its own: imports are most of its memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

UNUSED = ("kubernetes.config", "kubernetes.dynamic", "google.auth", "oauthlib", "requests_oauthlib")


def _run(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_the_operator_does_not_import_the_synchronous_client() -> None:
    modules = _run("import sys, kais_operator.__main__; print(*sys.modules)").split()
    assert "kubernetes.aio.client" in modules
    assert [name for name in UNUSED if name in modules] == []


@pytest.mark.parametrize(
    "statement", ["from kubernetes import config", "import kubernetes.config as config"]
)
def test_a_library_in_the_same_process_can_still_import_it(statement: str) -> None:
    program = f"import kais_operator.kubernetes; {statement}; print(config.load_kube_config)"
    assert "load_kube_config" in _run(program)
