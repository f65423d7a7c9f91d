"""The examples on real pods: a team that talks, realms apart, an image of one's own."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.support.installed import Installed, conditions
from e2e.support.waiting import until

pytestmark = pytest.mark.e2e
EXAMPLES = Path(__file__).parent.parent / "examples"
QUESTION = "question=When does the harbour open?"


@pytest.fixture
def namespace(cluster: Installed) -> Iterator[str]:
    yield from cluster.fresh_namespace("example")


def use(cluster: Installed, namespace: str, blueprint: str, *arguments: str) -> tuple[int, Any]:
    """Use a blueprint by the command; give its exit status and the result of the mission."""
    done = cluster.kais("blueprint", "use", blueprint, "-n", namespace, "-o", "json", *arguments)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    cluster.finished_mission(found["name"], namespace)
    return done.returncode, json.loads(found["result"])


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

    _, told = use(cluster, in_red, "notebook", "--set", note, "--set", QUESTION)
    _, again = use(cluster, in_red, "notebook", "--set", QUESTION)
    _, elsewhere = use(cluster, in_blue, "notebook", "--set", QUESTION)

    def contents(found: Any) -> list[str]:
        facts = found["facts"] if isinstance(found, dict) else found
        return [fact["content"] for fact in facts]

    assert "The harbour opens at six." in contents(told)
    assert contents(again) == contents(told) or "The harbour opens at six." in contents(again)
    assert contents(elsewhere) == []
    scopes = until(
        lambda: [conditions(body) for body in cluster.list("ksc", in_red)],
        lambda seen: all(one.get("Ready", {}).get("status") == "True" for one in seen),
        what="ready KnowledgeScopes",
    )
    assert len(scopes) == 2
    for used in (red, blue):
        next(used, None)


def test_an_image_that_knows_nothing_of_kais_is_a_cell(cluster: Installed, namespace: str) -> None:
    manifest = (EXAMPLES / "bring-your-own-image/team.yaml").read_text()
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=manifest)
    first = cluster.finished_mission("count", namespace)
    result = json.loads(first["status"]["result"])
    assert (first["status"]["outcome"], result["words"], result["attempt"]) == ("Succeeded", 6, 1)
    assert result["remembered"] == "created"

    again = manifest.split("---\n")[1].replace("name: count", "name: count-again")
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=again)
    second = json.loads(cluster.finished_mission("count-again", namespace)["status"]["result"])
    assert 'the objective "Count the words of $(THIS) sentence" has 6 words' in second["given"]


def test_every_shape_of_manifest_applies_and_says_what_its_cells_wait_for(
    cluster: Installed, namespace: str
) -> None:
    cluster.kubectl("apply", "-n", namespace, "-f", str(EXAMPLES / "shapes"))
    cells = until(
        lambda: [conditions(body) for body in cluster.list("cell", namespace)],
        lambda seen: len(seen) > 20 and all(one.get("Ready", {}).get("reason") for one in seen),
        what="cells that say why they wait",
    )
    assert {one["Ready"]["reason"] for one in cells} == {"NotYetSupported"}
    blueprint = until(
        lambda: conditions(cluster.get("bp", "letters", namespace)),
        lambda seen: seen.get("Ready", {}).get("status") == "True",
        what="a Blueprint that serves",
    )
    assert blueprint["Compiled"]["status"] == "True"
