"""Every YAML and JSON block of the documents is valid for what it is: objects, values, fields."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from e2e.support import documents
from kais import blueprint_rendering, parameters, rendered_validation
from kais.errors import InvalidResource
from kais.resources import (
    blueprint,
    cell_template,
    formation,
    kinds,
    knowledge_scope,
    mission,
    pod_template,
)
from kais.resources.base import API_VERSION, Model

ROOT = documents.ROOT
VALUES = yaml.safe_load((ROOT / "charts/kais/values.yaml").read_text())
VALUES_SCHEMA = json.loads((ROOT / "charts/kais/values.schema.json").read_text())
RENDERED_ELSEWHERE = ("# template\n", "# result\n", "# values of the examples\n")
"""The first lines of blocks that tests/unit/docs/test_templates_page.py renders and compares."""
RULES_OF_PROMETHEUS = "# file: kais-alerts.yaml\n"
"""The first line of the block that tests/unit/docs/test_alerts.py reads."""
SCOPE = "kind: KnowledgeScope\nmetadata: {name: a}\nspec: {level: formation, formation: a}\n"
PARTS: dict[str, type[Model]] = {
    "Blueprint.spec": blueprint.BlueprintSpec,
    "Cell.spec": cell_template.CellTemplateSpec,
    "Cell.spec.podTemplate.spec": pod_template.PodFields,
    "Formation.spec": formation.FormationSpec,
    "KnowledgeScope": knowledge_scope.KnowledgeScope,
    "Mission.spec": mission.MissionSpec,
}
"""What a comment `fields of: …` before a block may name."""


def blocks(*languages: str) -> list[Any]:
    return [
        pytest.param(block, id=f"{path.relative_to(ROOT)}-{number}")
        for path in documents.paths()
        for number, block in enumerate(documents.blocks(path), 1)
        if block.language in languages
    ]


def problems(block: documents.Block) -> list[str]:
    """Return what is wrong with a block; an unknown form is wrong too."""
    trees = [tree for tree in yaml.safe_load_all(block.text) if tree is not None]
    if block.fields_of:
        return [text for tree in trees for text in part_problems(block.fields_of, tree)]
    if all(isinstance(tree, dict) and "kind" in tree for tree in trees):
        return [text for tree in trees for text in object_problems(tree, block)]
    if all(set(tree) <= set(VALUES) for tree in trees):
        return [text for tree in trees for text in value_problems(tree)]
    hint = f"put a comment `fields of: …` before it, with one of {', '.join(PARTS)}"
    return [f"neither objects nor values of the chart; {hint}"]


def object_problems(tree: dict[str, Any], block: documents.Block) -> list[str]:
    kind = kinds.BY_NAME.get(tree["kind"])
    if kind is None:
        is_complete = {"apiVersion", "kind", "metadata"} <= set(tree)
        is_applied = bool(block.file or block.run_by or block.not_run)
        return [] if is_complete and is_applied else [f"{tree['kind']}: is applied by no test"]
    try:
        resource = kinds.read(tree)
    except InvalidResource as exc:
        return [str(violation) for violation in exc.violations]
    found = [str(problem) for problem in rendered_validation.unknown_fields(kind, tree, "")]
    if resource.api_version != API_VERSION:
        found.append(f"apiVersion: is {resource.api_version}, not {API_VERSION}")
    if isinstance(resource, blueprint.Blueprint):
        report = blueprint_rendering.compile_blueprint(tree["spec"])
        found += [] if report.is_good else [report.message]
    return found


def part_problems(name: str, tree: Any) -> list[str]:
    """Return the problems of some fields of an object; other fields may be missing."""
    if name == "Blueprint.spec" and "formation" in tree:
        return part_problems("Formation.spec", tree["formation"])
    model = PARTS[name]
    unknown = [str(problem) for problem in rendered_validation.unknown_fields(model, tree, name)]
    try:
        model.from_dict(tree)
    except InvalidResource as exc:
        return unknown + [str(v) for v in exc.violations if v.message != "is required"]
    return unknown


def value_problems(tree: dict[str, Any]) -> list[str]:
    validator = jsonschema.Draft7Validator(VALUES_SCHEMA)
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(tree)]


@pytest.mark.parametrize("block", blocks("yaml", "yml"))
def test_yaml_of_the_documents_is_valid(block: documents.Block) -> None:
    if not block.text.startswith((*RENDERED_ELSEWHERE, RULES_OF_PROMETHEUS)):
        assert problems(block) == []


@pytest.mark.parametrize("block", blocks("json"))
def test_json_of_the_documents_can_be_read(block: documents.Block) -> None:
    assert json.loads(block.text)


@pytest.mark.parametrize(
    ("text", "fields_of", "message"),
    [
        ("kind: Formation\nmetadata: {name: a}\nspec: {cels: []}\n", "", "spec.cells: is required"),
        (f"apiVersion: kais.io/v2\n{SCOPE}", "", "apiVersion: is kais.io/v2, not kais.io/v1"),
        ("operator: {replica: 1}\n", "", "'replica' was unexpected"),
        ("knowledge: {backup: {keep: many}}\n", "", "'many' is not of type"),
        ("container: {image: x, imagePulPolicy: Never}\n", "Cell.spec", "imagePullPolicy"),
        ("container: {image: [x]}\n", "Cell.spec", "container.image"),
        ("formation: {knowledge: {scop: a}}\n", "Blueprint.spec", "did you mean scope"),
        ("anything: 1\n", "", "neither objects nor values"),
        ("kind: Pod\napiVersion: v1\nmetadata: {name: a}\n", "", "applied by no test"),
    ],
)
def test_invalid_block_is_reported(text: str, fields_of: str, message: str) -> None:
    found = problems(documents.Block("yaml", text, fields_of=fields_of))
    assert any(message in problem for problem in found), found


def test_blueprint_that_does_not_compile_is_reported() -> None:
    text = (
        "kind: Blueprint\nmetadata: {name: a}\nspec:\n  formation:\n    cells:\n"
        "      - name: a\n        spec: {mode: Task, container: {image: '{{ imag }}'}}\n"
    )
    (problem,) = problems(documents.Block("yaml", text))
    assert "'imag' is not declared" in problem


def files_of_examples() -> list[Path]:
    return sorted(p for p in (ROOT / "examples").rglob("*.yaml") if "scripted" not in p.name)


def are_objects(path: Path) -> bool:
    return all("kind" in body for body in yaml.safe_load_all(path.read_text()) if body)


@pytest.mark.parametrize("path", files_of_examples(), ids=lambda p: str(p.relative_to(ROOT)))
def test_file_of_an_example_is_valid(path: Path) -> None:
    """Files without a kind are parameters for the Blueprint beside them."""
    if are_objects(path):
        block = documents.Block("yaml", f"# file: {path.name}\n{path.read_text()}")
        assert problems(block) == []
        return
    template = yaml.safe_load((path.parent / "blueprint.yaml").read_text())
    declared = blueprint.Blueprint.from_dict(template).spec.parameters
    assert parameters.resolve(declared, yaml.safe_load(path.read_text())).violations == ()
