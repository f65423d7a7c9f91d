"""What the incident team applies: one deployment may be changed, by one tool, after an approval."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import yaml

from kais import agent_tools, blueprint_rendering
from kais.resources.cell_template import Tool
from tests.model_server import script

ROOT = Path(__file__).parents[4]
EXAMPLE = ROOT / "examples/incident-team"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
IMAGE = f"localhost/kais/incident-team:{VERSION}"


def manifests(name: str) -> list[dict[str, Any]]:
    return [body for body in yaml.safe_load_all((EXAMPLE / name).read_text()) if body]


def rendered(**parameters: Any) -> blueprint_rendering.Rendered:
    result = blueprint_rendering.render_blueprint(
        manifests("blueprint.yaml")[0]["spec"],
        parameters,
        blueprint="incident-team",
        revision=1,
        instance="incident-team-1",
        namespace="incidents",
    )
    assert isinstance(result, blueprint_rendering.Rendered), result
    return result


def tools() -> dict[str, list[Tool]]:
    cells = rendered().formation_spec["cells"]
    return {
        cell["name"]: [Tool.from_dict(tool) for tool in cell["spec"]["tools"]] for cell in cells
    }


def roles() -> dict[str, list[dict[str, Any]]]:
    bodies = [body for body in manifests("rbac.yaml") if body["kind"] == "Role"]
    return {body["metadata"]["name"]: body["rules"] for body in bodies}


def test_every_cell_has_tools_that_exist() -> None:
    for cell, cell_tools in tools().items():
        assert agent_tools.problem(tool.name for tool in cell_tools) is None, cell
        assert agent_tools.server_problem(cell_tools) is None, cell


def test_the_only_call_that_changes_something_waits_for_a_person() -> None:
    approved = [
        (cell, tool.name)
        for cell, cell_tools in tools().items()
        for tool in cell_tools
        if tool.approval is not None and tool.approval.required
    ]
    assert approved == [("lead", "fixer__set_memory_limit")]
    servers = {
        cell: [tool.config["url"] for tool in cell_tools if tool.name == "mcp" and tool.config]
        for cell, cell_tools in tools().items()
    }
    assert servers == {
        "lead": ["http://cluster-fixer:8080/mcp"],
        "pods": ["http://cluster-reader:8080/mcp"],
        "changes": ["http://cluster-reader:8080/mcp"],
    }


def test_the_reader_reads_and_the_fixer_may_patch_one_deployment() -> None:
    verbs = {verb for rule in roles()["cluster-reader"] for verb in rule["verbs"]}
    assert verbs == {"get", "list"}
    assert roles()["cluster-fixer"] == [
        {
            "apiGroups": ["apps"],
            "resources": ["deployments"],
            "resourceNames": ["shop"],
            "verbs": ["get", "watch", "patch"],
        }
    ]


def test_the_servers_and_the_shop_run_the_image_of_this_version() -> None:
    bodies = [*manifests("cluster-tools.yaml"), *manifests("shop.yaml")]
    deployments = [body for body in bodies if body["kind"] == "Deployment"]
    for body in deployments:
        pod = body["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert container["image"] == IMAGE
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
    accounts = [body["spec"]["template"]["spec"].get("serviceAccountName") for body in deployments]
    assert accounts == ["cluster-reader", "cluster-fixer", None]


def test_a_rejected_repair_is_not_asked_for_again() -> None:
    mission = rendered().mission_spec
    assert mission is not None
    assert mission["completion"]["maxAttempts"] == 1


def test_the_rules_of_the_scripted_model_are_valid() -> None:
    config = next(body for body in manifests("scripted-model.yaml") if body["kind"] == "ConfigMap")
    assert len(script.parse(config["data"]["script.yaml"]).rules) == 13
