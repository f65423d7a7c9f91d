"""The template of the team: typed parameters, conditions inside texts, a cell a developer."""

import tomllib
from pathlib import Path

import pytest
import yaml

from kais import blueprint_rendering
from kais.resources.blueprint import Blueprint

ROOT = Path(__file__).parents[4]
BODY = yaml.safe_load((ROOT / "examples/code-review-team/blueprint.yaml").read_text())
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
FILES = [{"path": "app/orders.py", "text": "x = '$(HOME)'\n"}, {"path": "b.py", "text": ""}]


def render(**parameters):
    rendered = blueprint_rendering.render_blueprint(
        BODY["spec"],
        {"files": FILES} | parameters,
        blueprint="code-review-team",
        revision=1,
        instance="pr-7",
        namespace="demo",
    )
    assert isinstance(rendered, blueprint_rendering.Rendered), rendered
    return rendered


def cells(rendered):
    return {cell["name"]: cell["spec"] for cell in rendered.formation_spec["cells"]}


def test_blueprint_compiles_with_its_own_example():
    report = blueprint_rendering.compile_blueprint(BODY["spec"])
    assert report.is_good, report.message


def test_image_is_that_of_this_version():
    defaults = {p.name: p.default for p in Blueprint.from_dict(BODY).spec.parameters}
    assert defaults["image"] == f"localhost/kais/code-review-team:{VERSION}"


def test_there_is_a_cell_for_the_lead_and_one_for_each_developer():
    cells_by_name = cells(render(developers=["safety", "tests"]))
    assert list(cells_by_name) == ["lead", "safety", "tests"]
    assert cells_by_name["safety"]["container"]["args"] == ["developer", "safety"]
    assert cells_by_name["safety"]["mode"] == "Service"
    assert cells_by_name["lead"]["mode"] == "Task"


def test_the_change_reaches_the_lead_as_json_letter_for_letter():
    env = {item["name"]: item["value"] for item in cells(render())["lead"]["container"]["env"]}
    assert yaml.safe_load(env["REVIEW_FILES"]) == FILES


@pytest.mark.parametrize(("tier", "memory"), [("small", "128Mi"), ("large", "512Mi")])
def test_the_tier_decides_how_much_memory_a_developer_gets(tier, memory):
    assert cells(render(tier=tier))["style"]["resources"]["memoryLimit"] == memory


def test_a_star_has_the_lead_as_its_hub_and_a_mesh_has_none():
    assert render(shape="star").formation_spec["topology"] == {"type": "star", "hub": "lead"}
    assert render(shape="full_mesh").formation_spec["topology"] == {"type": "full_mesh"}


def test_the_objective_counts_and_names_the_files():
    objective = " ".join(render(strict=True).mission_spec["objective"].split())
    assert objective == (
        "Review 2 python files (app/orders.py, b.py) for style, safety, tests."
        " A serious finding is a failure."
    )


def test_the_budget_stays_a_number():
    assert render(budget=2.5).formation_spec["budget"] == {"maxTotalCost": 2.5}


def test_every_violation_is_named_at_once():
    rendered = blueprint_rendering.render_blueprint(
        BODY["spec"],
        {"files": [], "language": "C sharp", "developers": ["style"] * 11, "tier": "huge"},
        blueprint="code-review-team",
        revision=1,
        instance="pr-7",
        namespace="demo",
    )
    assert not isinstance(rendered, blueprint_rendering.Rendered)
    text = str(rendered)
    for name in ("files", "language", "developers", "tier"):
        assert name in text
