import copy
import json

import pytest

from kais import blueprint_rendering, parameters
from kais.blueprint_rendering import CompileReport, Rendered, Violations
from kais.reasons import Reason
from kais.resources.blueprint import TemplateSpec

NAMES = {"blueprint": "doctor", "revision": 4, "instance": "doctor-ab12c", "namespace": "demo"}


def spec(**changes):
    manifest = {
        "parameters": [
            {"name": "count", "type": "integer", "default": 2, "min": 1, "max": 5},
            {"name": "image", "type": "string", "example": "example/task:1"},
            {"name": "token", "type": "secretRef", "required": False},
            {"name": "budget", "type": "number", "default": 2.5},
        ],
        "formation": {
            "cells": [
                {
                    "name": "worker",
                    "replicas": "{{ count }}",
                    "spec": {
                        "container": {
                            "image": "{{ image }}",
                            "env": [
                                {"name": "WHERE", "value": "{{ instance.namespace }}"},
                                {
                                    "$if": "token is defined",
                                    "name": "TOKEN",
                                    "valueFrom": {"secretKeyRef": "{{ token }}"},
                                },
                            ],
                        }
                    },
                }
            ],
            "budget": {"maxTotalCost": "{{ budget }}"},
        },
        "mission": {
            "objective": "{{ blueprint.name }} r{{ blueprint.revision }} for {{ instance.name }}",
            "entrypoint": {"cell": "worker"},
        },
    }
    return {**copy.deepcopy(manifest), **changes}


def hundred(name):
    return {"name": name, "replicas": 100, "spec": {"container": {"image": "i"}}}


def render(value, blueprint=None, **options):
    return blueprint_rendering.render_blueprint(blueprint or spec(), value, **NAMES, **options)


def test_rendering_gives_valid_typed_specs():
    rendered = render({"image": "007"})
    assert isinstance(rendered, Rendered)
    (cell,) = rendered.formation_spec["cells"]
    assert cell["replicas"] == 2
    assert cell["spec"]["container"]["image"] == "007"
    assert rendered.formation_spec["budget"] == {"maxTotalCost": 2.5}
    assert rendered.mission_spec["objective"] == "doctor r4 for doctor-ab12c"
    assert rendered.mission_spec["formationRef"] == "doctor-ab12c"
    assert rendered.values == {"count": 2, "image": "007", "budget": 2.5}


def test_a_template_that_is_changed_in_place_renders_as_changed():
    blueprint = spec()
    first = render({"image": "a"}, blueprint)
    blueprint["formation"]["cells"][0]["name"] = "other"
    blueprint["mission"]["entrypoint"]["cell"] = "other"
    second = render({"image": "a"}, blueprint)
    assert first.formation_spec["cells"][0]["name"] == "worker"
    assert second.formation_spec["cells"][0]["name"] == "other"
    first.formation_spec["cells"][0]["name"] = "changed"
    assert render({"image": "a"}).formation_spec["cells"][0]["name"] == "worker"


def test_secret_renders_as_a_reference_only():
    rendered = render({"image": "i", "token": {"name": "keys", "key": "api"}})
    env = rendered.formation_spec["cells"][0]["spec"]["container"]["env"]
    reference = {"secretKeyRef": {"name": "keys", "key": "api"}}
    assert env[1] == {"name": "TOKEN", "valueFrom": reference}


def test_blueprint_without_mission_renders_none():
    spec_without_mission = spec()
    del spec_without_mission["mission"]
    assert render({"image": "i"}, spec_without_mission).mission_spec is None


def test_hash_of_the_values_does_not_depend_on_who_wrote_the_default():
    implicit = render({"image": "i"})
    explicit = render({"image": "i", "count": 2})
    assert implicit.parameters_hash == explicit.parameters_hash
    assert implicit.parameters_hash != render({"image": "i", "count": 3}).parameters_hash


def test_all_wrong_parameters_are_said_at_once():
    result = render({"imgae": "i", "count": "three"})
    assert result == Violations(
        Reason.PARAMETERS_INVALID,
        (
            "parameter 'imgae': is not declared; did you mean 'image'?",
            "parameter 'count': must be an integer, got \"three\"",
            "parameter 'image': is required",
        ),
    )
    assert "; " in result.message


def test_only_unknown_parameters_have_their_own_reason():
    assert render({"image": "i", "x": 1}).reason is Reason.UNKNOWN_PARAMETER


def test_immutable_parameter_is_checked_against_the_values_before():
    fixed = spec(parameters=[{"name": "image", "type": "string", "immutable": True}])
    fixed["formation"] = {"cells": [{"name": "a", "spec": {"container": {"image": "{{ image }}"}}}]}
    del fixed["mission"]
    declared = TemplateSpec.from_dict(fixed).parameters
    result = render(
        {"image": "b"}, fixed, previous=parameters.immutable_values(declared, {"image": "a"})
    )
    assert "is immutable" in result.message


def broken(path, value):
    broken_spec = spec()
    node = broken_spec
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = value
    return broken_spec


CELL = ("formation", "cells", 0)


@pytest.mark.parametrize(
    ("blueprint", "message"),
    [
        pytest.param(
            broken((*CELL, "name"), "{{ image }}"),
            "formation.cells[0].name: string should match pattern",
            id="a rendered name that is no DNS label",
        ),
        pytest.param(
            broken((*CELL, "replicas"), "{{ count }}x"),
            'formation.cells[0].replicas: input should be a valid integer, got "2x"',
            id="text for a number",
        ),
        pytest.param(
            broken((*CELL, "replica"), 1),
            "formation.cells[0].replica: is not a field of this object; did you mean replicas?",
            id="a field that does not exist",
        ),
        pytest.param(
            broken(("formation", "topology"), {"type": "star"}),
            "formation.topology: a star needs a hub",
            id="a star without hub",
        ),
        pytest.param(
            broken(("formation", "topology"), {"type": "star", "hub": "lead"}),
            'formation.topology.hub: "lead" is not a cell of this formation; it has worker',
            id="a hub that names no cell",
        ),
        pytest.param(
            broken(("formation", "cells"), [hundred(f"w{i}") for i in range(11)]),
            "formation.cells: the templates ask for 1100 cells, and a formation has at most 1000:",
            id="more cells than a formation may have",
        ),
        pytest.param(
            broken(("mission", "entrypoint", "cell"), "wrker"),
            'mission.entrypoint.cell: "wrker" is not a cell of the formation; it has worker',
            id="an entrypoint that does not exist",
        ),
        pytest.param(
            broken(("mission", "entrypoint", "cell"), "worker-2"),
            'mission.entrypoint.cell: "worker-2" is not a cell of the formation; it has worker',
            id="a replica that does not exist",
        ),
        pytest.param(
            broken(("mission", "completion"), {"timeout": "soon"}),
            "mission.completion.timeout: must be a duration above zero",
            id="a timeout that does not parse",
        ),
        pytest.param(
            broken(("mission", "cellRef"), "solo"),
            "mission.cellRef: is set by the operator; leave it out",
            id="a reference to a cell",
        ),
        pytest.param(
            broken(("mission",), {"$for": {"item": "x", "in": "[1]"}}),
            "mission: a directive must be an item of a list or a value of a mapping",
            id="a directive at the root",
        ),
        pytest.param(
            broken(("mission", "objective"), "{{ cuont }}"),
            "mission.objective, line 1, column 4: 'cuont' is not declared; did you mean 'count'?",
            id="an undeclared variable",
        ),
        pytest.param(
            broken(("parameters", 0, "default"), 9),
            "parameter 'count': default must be at most 5, got 9",
            id="a default against its own rule",
        ),
        pytest.param(
            broken(("mission", "objective"), "{{ token.name }}"),
            "mission.objective, line 1, column 9: 'token' has no value: it is optional",
            id="an optional parameter used as if it were there",
        ),
    ],
)
def test_blueprint_does_not_compile(blueprint, message):
    report = blueprint_rendering.compile_blueprint(blueprint)
    assert (report.is_good, report.reason) == (False, Reason.TEMPLATE_ERROR)
    assert any(message in error for error in report.errors), report.errors
    assert message in report.message


def test_all_errors_of_a_template_come_at_once():
    twice = broken(("mission", "objective"), "{{ a }}")
    twice["formation"]["budget"] = {"maxTotalCost": "{{ b }}"}
    assert len(blueprint_rendering.compile_blueprint(twice).errors) == 2


def test_good_blueprint_compiles():
    report = blueprint_rendering.compile_blueprint(spec())
    assert report == CompileReport(
        is_good=True,
        reason=Reason.COMPILED,
        message="the template renders with its defaults and examples",
    )


def test_blueprint_without_samples_is_parsed_only():
    unknown = spec()
    del unknown["parameters"][1]["example"]
    report = blueprint_rendering.compile_blueprint(unknown)
    assert (report.is_good, report.reason) == (True, Reason.NOT_SAMPLED)
    assert "'image' has neither default nor example" in report.message


def test_a_value_that_fills_the_output_is_reported_where_it_did_and_not_for_later_leaves():
    task = {"env": [{"name": "TEXT", "value": "{{ image }}"}], "image": "a:1"}
    formation = {"cells": [{"name": "c", "spec": {"mode": "Task", "container": task}}]}
    template = spec() | {"formation": formation, "mission": {"objective": "{{ image }}"}}
    rendering = blueprint_rendering.render_blueprint(
        template, {"image": "x" * 300_000}, blueprint="b", revision=1, instance="i", namespace="n"
    )
    assert rendering.violations == (
        "formation.cells[0].spec.container.env[0].value: the output is larger than 256 KiB",
    )


def test_examples_are_tried_beside_defaults():
    bad = spec()
    bad["parameters"][0] = {"name": "count", "type": "integer", "default": 2, "example": 500}
    (error,) = blueprint_rendering.compile_blueprint(bad).errors
    assert " (with count=500, " in error
    assert "formation.cells[0].replicas: input should be less than or equal to 100" in error


def test_everything_crosses_a_pipe():
    report = blueprint_rendering.compile_blueprint(broken(("mission", "objective"), "{{ x }}"))
    assert CompileReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report
    for rendering in (render({"image": "i"}), render({"x": 1})):
        assert (
            blueprint_rendering.read_rendering(json.loads(json.dumps(rendering.to_dict())))
            == rendering
        )


def test_rendered_text_cannot_inject_structure():
    nasty = "x\n      privileged: true\n---\nkind: Cell # {{ count }}"
    rendered = render({"image": nasty})
    assert rendered.formation_spec["cells"][0]["spec"]["container"]["image"] == nasty


def test_progress_names_each_leaf():
    observed = []
    blueprint_rendering.compile_blueprint(spec(), progress=observed.append)
    assert "formation.cells[0].replicas" in observed
    assert "mission.objective" in observed


def test_progress_names_each_parameter_and_each_leaf_before_it_is_parsed():
    observed = []
    blueprint_rendering.compile_blueprint(
        broken((*CELL, "name"), "{{ oops( }}"), progress=observed.append
    )
    assert "parameter 'image'" in observed
    assert "formation.cells[0].name" in observed
