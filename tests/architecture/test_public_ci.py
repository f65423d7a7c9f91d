"""The workflow for public CI runs what a developer runs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from kais_cluster import image_catalog

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = f"{Path(sys.executable).parent}:{os.defpath}"
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/ci.yaml").read_text())
RELEASE = yaml.safe_load((ROOT / ".github/workflows/release.yaml").read_text())


def commands():
    steps = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]
    return "\n".join(step.get("run", "") for step in steps)


def test_every_make_target_of_the_workflow_exists():
    names = re.findall(r"\bmake ([a-z0-9 ]+)$", commands(), flags=re.MULTILINE)
    targets = set(re.findall(r"^([a-z0-9 -]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    known_targets = {term for line in targets for term in line.split()}
    expected = {term for line in names for term in line.split()}
    assert {"check", "unit", "contract", "cluster", "e2e"} <= expected <= known_targets


def test_end_to_end_tests_run_on_kind_and_may_not_be_left_out():
    job = WORKFLOW["jobs"]["e2e-on-kind"]
    required = [step["env"]["KAIS_REQUIRE_TIERS"] for step in job["steps"] if "env" in step]
    assert required == ["e2e"]
    assert any("docker info" in step.get("run", "") for step in job["steps"])


def test_a_release_publishes_each_image_but_that_of_the_tests():
    published = {
        (image["name"], image["dockerfile"])
        for image in RELEASE["jobs"]["images"]["strategy"]["matrix"]["include"]
    }
    built = {(image.name, image.dockerfile) for image in image_catalog.IMAGES}
    assert built - published == {("model-server", "tests/model_server/Dockerfile")}
    assert published <= built


def test_a_release_signs_what_it_publishes_and_adds_an_sbom():
    for name, command in (("images", "cosign sign --yes"), ("charts", "cosign sign --yes")):
        job = RELEASE["jobs"][name]
        assert job["permissions"]["id-token"] == "write"
        assert any(command in step.get("run", "") for step in job["steps"])
    (build,) = (step for step in RELEASE["jobs"]["images"]["steps"] if step.get("id") == "build")
    assert (build["with"]["sbom"], build["with"]["push"]) == (True, True)


def test_a_published_chart_names_no_image_of_this_machine():
    text = (ROOT / "charts/kais/values.yaml").read_text()
    for name in ("operator", "knowledge", "agent"):
        text = text.replace(f"repository: localhost/kais/{name}\n", f"repository: r/{name}\n")
    assert "localhost/kais" not in text


def run_step(job, name, directory, **environment):
    """Run a step of the release as GitHub does, with the shell that the workflow names."""
    (step,) = (
        step for step in RELEASE["jobs"][job]["steps"] if name in (step.get("id"), step.get("name"))
    )
    # GitHub runs `shell: bash` with pipefail, and no shell named without it.
    strict = RELEASE.get("defaults", {}).get("run", {}).get("shell") == "bash"
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", step["run"]]
        if strict
        else ["bash", "-e", "-c", step["run"]],
        cwd=directory,
        env={"PATH": PROGRAMS, "GITHUB_OUTPUT": str(directory / "output"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_release_writes_the_registry_in_small_letters(tmp_path):
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    registry = {"REGISTRY": "ghcr.io/Example-Owner/kais", "GITHUB_REF_TYPE": "branch"}
    step = run_step("version", "version", tmp_path, **registry)
    assert step.returncode == 0, step.stderr
    assert "registry=ghcr.io/example-owner/kais\n" in (tmp_path / "output").read_text()
    for job in ("images", "charts"):
        assert RELEASE["jobs"][job]["env"]["REGISTRY"] == "${{ needs.version.outputs.registry }}"


def test_a_release_refuses_a_tag_of_another_version(tmp_path):
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    tag = {
        "GITHUB_REF_TYPE": "tag",
        "GITHUB_REF_NAME": "v99.0.0",
        "REGISTRY": "registry.example/kais",
    }
    step = run_step("version", "version", tmp_path, **tag)
    assert step.returncode == 1
    assert "::error::the tag is v99.0.0, and pyproject.toml has version" in step.stdout


def test_a_release_signs_no_chart_whose_push_failed(tmp_path):
    shutil.copytree(ROOT / "charts", tmp_path / "charts")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, script in (("helm", '[ "$1" != push ]'), ("cosign", f"echo $* >>{tmp_path}/signed")):
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    chart = {"VERSION": "1.2.3", "REGISTRY": "registry.example/kais"}
    path = f"{programs}:{PROGRAMS}"
    step = run_step("charts", "publish and sign", tmp_path, **chart, PATH=path)
    assert step.returncode != 0
    assert not (tmp_path / "signed").exists()
