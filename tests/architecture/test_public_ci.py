"""The workflow for public CI runs what a developer runs."""

import re
from pathlib import Path

import yaml

from kais_cluster import image_catalog

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
