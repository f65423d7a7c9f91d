"""What the example applies: valid for our kinds, of this version, and without more rights."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import demo
from kais import blueprint_rendering, labels
from kais.resources import kinds
from kais.resources.blueprint import Blueprint
from kais_cluster import charts

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


def test_only_cells_and_the_operator_may_connect_to_the_cells_of_the_demo() -> None:
    (policy,) = manifests("networkpolicy.yaml")

    cell = {labels.ROLE: labels.ROLE_CELL}
    operator = {"app.kubernetes.io/name": "kais", "app.kubernetes.io/component": "operator"}
    home = {"kubernetes.io/metadata.name": charts.NAMESPACE}
    assert policy["kind"] == "NetworkPolicy"
    assert policy["spec"] == {
        "podSelector": {"matchLabels": cell},
        "policyTypes": ["Ingress"],
        "ingress": [
            {
                "from": [
                    {"podSelector": {"matchLabels": cell}},
                    {
                        "namespaceSelector": {"matchLabels": home},
                        "podSelector": {"matchLabels": operator},
                    },
                ]
            }
        ],
    }
    assert "networkpolicy.yaml" in demo.FILES


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


def render(**parameters: Any) -> blueprint_rendering.Rendered:
    spec = manifests("blueprint.yaml")[0]["spec"]
    rendering = blueprint_rendering.render_blueprint(
        spec, parameters, blueprint="namespace-doctor", revision=1, instance="x", namespace="demo"
    )
    assert isinstance(rendering, blueprint_rendering.Rendered)
    return rendering


def test_blueprint_compiles() -> None:
    report = blueprint_rendering.compile_blueprint(manifests("blueprint.yaml")[0]["spec"])

    assert report.is_good, report.message


def test_use_without_knowledge_renders_a_boolean_and_a_text() -> None:
    rendering = render(useKnowledge=False, maxPods=7)

    assert rendering.mission_spec is not None
    assert rendering.mission_spec["knowledge"]["inject"] is False
    (cell,) = rendering.formation_spec["cells"]
    assert cell["spec"]["container"]["args"] == ["--max-pods=7"]


def test_objective_names_the_namespace_and_the_words_that_facts_are_found_by() -> None:
    rendering = render()

    assert rendering.mission_spec is not None
    objective = rendering.mission_spec["objective"]
    assert objective.startswith("Explain each failing pod of namespace demo: an image that cannot")
    for text in ("ImagePullBackOff", "crash loop", "probe", "out of memory", "unschedulable"):
        assert text in objective
