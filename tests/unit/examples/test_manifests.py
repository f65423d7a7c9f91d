"""What the example applies: valid for our kinds, of this version, and without more rights."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from kais.resources import kinds
from kais.resources.blueprint import Blueprint

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples/namespace-doctor"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
IMAGE = f"localhost/kais/namespace-doctor:{VERSION}"


def manifests(name: str) -> list[dict[str, Any]]:
    return [body for body in yaml.safe_load_all((EXAMPLE / name).read_text()) if body]


@pytest.mark.parametrize("name", ["blueprint.yaml", "knowledgescope.yaml"])
def test_manifest_is_valid(name: str) -> None:
    (body,) = manifests(name)

    assert kinds.read(body).metadata.name == "namespace-doctor"


def test_blueprint_uses_the_image_of_this_version() -> None:
    blueprint = Blueprint.from_dict(manifests("blueprint.yaml")[0])

    defaults = {p.name: p.default for p in blueprint.spec.parameters}
    assert defaults == {"image": IMAGE, "useKnowledge": True, "maxPods": 50}


def test_doctor_may_read_pods_and_events_and_nothing_else() -> None:
    account, role, _ = manifests("rbac.yaml")

    assert account["metadata"]["annotations"] == {"kais.io/allow-cells": "true"}
    assert role["kind"] == "Role"
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["get", "list"]}
    ]


def test_broken_pods_run_an_image_of_the_node_or_one_that_nobody_serves() -> None:
    images = [pod["spec"]["containers"][0]["image"] for pod in manifests("broken-pods.yaml")]

    assert images.count("127.0.0.1:1/missing:1") == 2
    assert set(images) == {"127.0.0.1:1/missing:1", IMAGE}


def test_broken_pods_are_restricted() -> None:
    for pod in manifests("broken-pods.yaml"):
        (container,) = pod["spec"]["containers"]
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert pod["spec"]["automountServiceAccountToken"] is False
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
