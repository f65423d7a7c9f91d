"""The workflow for public CI runs what a developer runs."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import yaml

from kais_cluster import image_catalog
from scripts import release

ROOT = Path(__file__).resolve().parents[2]
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


def steps_of_release(job):
    return RELEASE["jobs"][job]["steps"]


def test_a_release_publishes_each_image_but_that_of_the_tests():
    published = RELEASE["jobs"]["images"]["strategy"]["matrix"]["name"]
    assert published == [image.name for image in release.PUBLISHED_IMAGES]
    assert {image.name for image in image_catalog.IMAGES} - {*published} == {"model-server"}


def test_a_release_of_the_workflow_is_that_of_any_machine():
    for job in ("images", "charts"):
        assert RELEASE["jobs"][job]["permissions"]["id-token"] == "write"
        (command,) = (
            step["run"]
            for step in steps_of_release(job)
            if "scripts.release" in step.get("run", "")
        )
        text = command.replace("\\\n", "").replace("${{ matrix.name }}", "operator")
        program, *arguments = shlex.split(text.replace("$REGISTRY", "r.example/kais"))
        assert [program, *arguments[:2]] == ["python3", "-m", "scripts.release"]
        options = release.parser().parse_args(arguments[2:])
        assert (options.base, options.key, options.plain_http) == ("registry", "", False)
        assert options.tag == "$TAG"
    assert RELEASE["env"]["TAG"] == "${{ github.ref_type == 'tag' && github.ref_name || '' }}"


def test_each_job_of_a_release_builds_the_programs_that_it_uses():
    for job in RELEASE["jobs"]:
        commands_of_job = [step.get("run", "") for step in steps_of_release(job)]
        assert f"python3 -m kais_cluster build {' '.join(release.TOOLS)}" in commands_of_job


def test_a_release_logs_in_for_all_programs_before_it_publishes(tmp_path):
    crane = tmp_path / ".cache/kais/host-cluster/bin/crane"
    crane.parent.mkdir(parents=True)
    crane.write_text(f'#!/bin/sh\n(echo "$@"; cat) >{tmp_path}/log-in\n')
    crane.chmod(0o755)
    for job in ("images", "charts"):
        names = [step.get("name", "") for step in steps_of_release(job)]
        assert names.index("log in") < names.index("publish")
        (step,) = (step for step in steps_of_release(job) if step.get("name") == "log in")
        environment = {
            "PATH": os.defpath,
            "HOME": str(tmp_path),
            "REGISTRY": "ghcr.io/you/kais",
            "REGISTRY_PASSWORD": "",
            "GITHUB_ACTOR": "you",
            "GITHUB_TOKEN": "secret",
        }
        command = ["bash", "-eo", "pipefail", "-c", step["run"]]
        subprocess.run(command, env=environment, check=True)
        assert (tmp_path / "log-in").read_text() == (
            "auth login ghcr.io --username you --password-stdin\nsecret\n"
        )
        (tmp_path / "log-in").unlink()
        elsewhere = {**environment, "REGISTRY": "r.example/kais"}
        refusal = subprocess.run(
            command, env=elsewhere, check=False, capture_output=True, text=True
        )
        assert refusal.returncode != 0
        assert "set the secrets REGISTRY_USERNAME and REGISTRY_PASSWORD" in refusal.stderr
        assert not (tmp_path / "log-in").exists(), "GitHub's token goes to no other registry"
    # GitHub runs `shell: bash` with pipefail, and no shell named without it.
    assert RELEASE["defaults"]["run"]["shell"] == "bash"
