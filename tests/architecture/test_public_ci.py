"""The workflow for public CI runs what a developer runs."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/ci.yaml").read_text())


def commands():
    steps = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]
    return "\n".join(step.get("run", "") for step in steps)


def test_every_make_target_of_the_workflow_exists():
    named = re.findall(r"\bmake ([a-z0-9 ]+)$", commands(), flags=re.MULTILINE)
    targets = set(re.findall(r"^([a-z0-9 -]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    known = {word for line in targets for word in line.split()}
    wanted = {word for line in named for word in line.split()}
    assert {"check", "unit", "contract", "cluster", "e2e"} <= wanted <= known


def test_end_to_end_tests_run_on_kind_and_may_not_be_left_out():
    job = WORKFLOW["jobs"]["e2e-on-kind"]
    required = [step["env"]["KAIS_REQUIRE_TIERS"] for step in job["steps"] if "env" in step]
    assert required == ["e2e"]
    assert any("docker info" in step.get("run", "") for step in job["steps"])
