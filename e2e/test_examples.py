"""The examples on real pods: a team that talks, realms apart, an image of one's own."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.support.installed import Installed, conditions
from e2e.support.waiting import wait_until

pytestmark = pytest.mark.e2e
EXAMPLES = Path(__file__).parent.parent / "examples"
QUESTION = "question=When does the harbour open?"


@pytest.fixture
def namespace(cluster: Installed) -> Iterator[str]:
    yield from cluster.fresh_namespace("example")


def use(cluster: Installed, namespace: str, blueprint: str, *arguments: str) -> tuple[int, Any]:
    """Use a blueprint by the command; give its exit status and the result of the mission."""
    status, result = use_for_text(cluster, namespace, blueprint, *arguments)
    return status, json.loads(result)


def use_for_text(
    cluster: Installed, namespace: str, blueprint: str, *arguments: str
) -> tuple[int, str]:
    """Use a blueprint by the command; return its exit status and the text of the result."""
    completed = cluster.kais(
        "blueprint", "use", blueprint, "-n", namespace, "-o", "json", *arguments
    )
    assert completed.stdout, completed.stderr
    result = json.loads(completed.stdout)
    cluster.finished_mission(result["name"], namespace)
    return completed.returncode, result["result"]


def test_team_reviews_a_change_and_knows_its_habits_the_next_time(
    cluster: Installed, namespace: str
) -> None:
    folder = EXAMPLES / "code-review-team"
    cluster.kubectl("apply", "-n", namespace, "-f", str(folder / "blueprint.yaml"))
    values = ("--values", str(folder / "change.yaml"))

    status, first = use(cluster, namespace, "code-review-team", *values)
    assert status == 0
    assert first["asked"] == ["safety-0", "style-0", "tests-0"]
    assert (first["findings"], first["serious"], first["used_facts"]) == (5, True, [])
    assert len(first["remembered_facts"]) == 5
    assert first["notes"] == []

    status, second = use(cluster, namespace, "code-review-team", *values, "--set", "strict=true")
    assert status == 1, "a serious finding fails a strict review"
    assert set(second["used_facts"]) >= set(first["remembered_facts"])
    assert second["remembered_facts"] == []


def test_a_mesh_of_two_developers_has_cells_for_them_only(
    cluster: Installed, namespace: str
) -> None:
    folder = EXAMPLES / "code-review-team"
    cluster.kubectl("apply", "-n", namespace, "-f", str(folder / "blueprint.yaml"))
    status, result = use(
        cluster,
        namespace,
        "code-review-team",
        *("--values", str(folder / "change.yaml"), "--set", 'developers=["style","tests"]'),
        *("--set", "shape=full_mesh", "--set", "tier=large"),
    )
    assert status == 0
    assert result["asked"] == ["style-0", "tests-0"]


def test_a_realm_knows_what_it_learnt_and_nothing_of_its_sibling(cluster: Installed) -> None:
    folder = EXAMPLES / "scoped-knowledge"
    red, blue = cluster.fresh_namespace("red"), cluster.fresh_namespace("blue")
    in_red, in_blue = next(red), next(blue)
    for realm in (in_red, in_blue):
        for name in ("notebook.yaml", "scopes.yaml"):
            cluster.kubectl("apply", "-n", realm, "-f", str(folder / name))
    note = "note=The harbour opens at six."

    _, first = use_for_text(cluster, in_red, "notebook", "--set", note, "--set", QUESTION)
    _, second = use_for_text(cluster, in_red, "notebook", "--set", QUESTION)
    _, sibling = use_for_text(cluster, in_blue, "notebook", "--set", QUESTION)

    assert "source=explicit_remember" in first
    assert first.rstrip().endswith("The harbour opens at six.")
    assert "The harbour opens at six." in second
    assert sibling.rstrip() == "no facts match"
    scopes = wait_until(
        lambda: [conditions(body) for body in cluster.list("ksc", in_red)],
        lambda all_conditions: all(
            cell_conditions.get("Ready", {}).get("status") == "True"
            for cell_conditions in all_conditions
        ),
        description="ready KnowledgeScopes",
    )
    assert len(scopes) == 2
    for run_name in (red, blue):
        next(run_name, None)


def test_an_image_that_knows_nothing_of_kais_is_a_cell(cluster: Installed, namespace: str) -> None:
    manifest = (EXAMPLES / "bring-your-own-image/team.yaml").read_text()
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=manifest)
    first = cluster.finished_mission("count", namespace)
    result = json.loads(first["status"]["result"])
    assert (first["status"]["outcome"], result["words"], result["attempt"]) == ("Succeeded", 6, 1)
    assert result["remembered"] == "created"

    second_manifest = manifest.split("---\n")[1].replace("name: count", "name: count-again")
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=second_manifest)
    second = json.loads(cluster.finished_mission("count-again", namespace)["status"]["result"])
    assert 'the objective "Count the words of $(THIS) sentence" has 6 words' in second["given"]


def test_an_agent_of_another_project_does_the_work_of_a_mission(
    cluster: Installed, namespace: str
) -> None:
    manifest = EXAMPLES / "bring-your-own-agent/team.yaml"
    cluster.kubectl("apply", "-n", namespace, "-f", str(manifest))
    settled = cluster.finished_mission("count", namespace)["status"]
    assert (settled["outcome"], settled["attempt"]) == ("Succeeded", 1), settled
    assert settled["result"] == "The objective has 6 words."
    assert settled["checks"] == [{"name": "number", "status": "Passed"}]
    assert "cost" not in settled, "an agent of somebody else reports no cost"
    ready = conditions(cluster.get("cell", "counter-agent-0", namespace))["Ready"]
    assert (ready["status"], ready["reason"]) == ("True", "TopologyNotEnforced")
    assert "checks no tickets" in ready["message"]


def test_every_shape_of_manifest_applies_and_says_what_its_cells_wait_for(
    cluster: Installed, namespace: str
) -> None:
    cluster.kubectl("apply", "-n", namespace, "-f", str(EXAMPLES / "shapes"))
    cells = wait_until(
        lambda: [conditions(body) for body in cluster.list("cell", namespace)],
        lambda observed: (
            len(observed) > 20
            and all(cell_conditions.get("Ready", {}).get("reason") for cell_conditions in observed)
        ),
        description="cells that say why they wait",
    )
    reasons = {cell_conditions["Ready"]["reason"] for cell_conditions in cells}
    assert "NoModelEndpoint" in reasons
    assert reasons <= {"NoModelEndpoint", "WaitingForPods", "Ready"}
    blueprint = wait_until(
        lambda: conditions(cluster.get("bp", "letters", namespace)),
        lambda observed: observed.get("Ready", {}).get("status") == "True",
        description="a Blueprint that serves",
    )
    assert blueprint["Compiled"]["status"] == "True"
