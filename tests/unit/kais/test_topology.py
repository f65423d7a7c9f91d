import pytest
from hypothesis import given
from hypothesis import strategies as st

from kais import topology
from kais.resources.formation import FormationSpec

TASK = {"container": {"image": "example/task:1"}}


def spec(shape, **replicas):
    cells = [{"name": n, "replicas": count, "spec": TASK} for n, count in replicas.items()]
    return FormationSpec.from_dict({"cells": cells, "topology": shape})


def allowed(shape, **replicas):
    return {k: list(v) for k, v in topology.routes(spec(shape, **replicas)).allowed.items()}


def test_full_mesh_lets_all_talk_to_all_others():
    assert allowed({"type": "full_mesh"}, a=2, b=1) == {
        "a-0": ["a-1", "b-0"],
        "a-1": ["a-0", "b-0"],
        "b-0": ["a-0", "a-1"],
    }


def test_star_goes_through_the_hub():
    assert allowed({"type": "star", "hub": "h"}, h=1, w=2) == {
        "h-0": ["w-0", "w-1"],
        "w-0": ["h-0"],
        "w-1": ["h-0"],
    }


def test_hierarchy_without_routes_is_flat_below_the_root():
    assert allowed({"type": "hierarchy", "root": "r"}, r=1, a=1, b=1) == {
        "a-0": ["r-0"],
        "b-0": ["r-0"],
        "r-0": ["a-0", "b-0"],
    }


def test_hierarchy_with_routes_is_the_tree_they_describe():
    routes = [{"from": "r", "to": ["a"]}, {"from": "a", "to": ["b"]}]
    assert allowed({"type": "hierarchy", "root": "r", "routes": routes}, r=1, a=1, b=2) == {
        "a-0": ["b-0", "b-1", "r-0"],
        "b-0": ["a-0"],
        "b-1": ["a-0"],
        "r-0": ["a-0"],
    }


def test_ring_knows_next_and_previous():
    assert allowed({"type": "ring"}, a=1, b=1, c=1, d=1) == {
        "a-0": ["b-0", "d-0"],
        "b-0": ["a-0", "c-0"],
        "c-0": ["b-0", "d-0"],
        "d-0": ["a-0", "c-0"],
    }


def test_custom_routes_go_one_way():
    routes = [{"from": "a", "to": ["b"]}]
    assert allowed({"type": "custom", "routes": routes}, a=1, b=1) == {"a-0": ["b-0"], "b-0": []}


def test_stigmergy_has_no_routes():
    shape = {"type": "stigmergy", "blackboard": {"decayMinutes": 5}}
    assert allowed(shape, a=2) == {"a-0": [], "a-1": []}


@pytest.mark.parametrize(
    ("shape", "problem"),
    [
        (
            {"type": "hierarchy", "root": "boss"},
            'topology.root: "boss" is not a cell of this formation; it has a, b',
        ),
        (
            {"type": "star", "hub": "boss"},
            'topology.hub: "boss" is not a cell of this formation; it has a, b',
        ),
        (
            {"type": "custom", "routes": [{"from": "a", "to": ["b", "boss"]}]},
            'topology.routes[0].to[1]: "boss" is not a cell of this formation; it has a, b',
        ),
        (
            {"type": "ring", "broadcast": {"enabled": True, "from": ["boss"]}},
            'topology.broadcast.from[0]: "boss" is not a cell of this formation; it has a, b',
        ),
    ],
)
def test_name_of_no_cell_is_a_problem_and_never_an_open_door(shape, problem):
    routes = topology.routes(spec(shape, a=1, b=1))
    assert routes.problems == (problem,)
    assert "boss" not in str(routes.allowed)


@given(st.sampled_from(["full_mesh", "ring"]), st.integers(1, 6), st.integers(1, 6))
def test_nobody_talks_to_itself_and_every_target_exists(shape, a, b):
    manifest = topology.routes(spec({"type": shape}, a=a, b=b)).allowed
    for cell, targets in manifest.items():
        assert cell not in targets
        assert set(targets) <= set(manifest)


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        pytest.param(None, "lead-0", id="none named is the hub"),
        pytest.param("w", "w-0", id="a template is its first replica"),
        pytest.param("w-1", "w-1", id="a replica is itself"),
        pytest.param("w-2", None, id="a replica too many"),
        pytest.param("boss", None, id="an unknown name"),
    ],
)
def test_entrypoint(cell, expected):
    star = spec({"type": "star", "hub": "lead"}, w=2, lead=1)
    assert topology.entrypoint_cell(star, cell) == expected


def test_entrypoint_of_a_mesh_is_its_first_cell():
    assert topology.default_entrypoint(spec({"type": "full_mesh"}, b=1, a=1)) == "b"


@pytest.mark.parametrize(
    ("short", "template"), [("w-1", "w"), ("w-2", None), ("w-01", None), ("x-0", None), ("w", None)]
)
def test_template_of_a_short_name(short, template):
    assert topology.template_of(spec({"type": "full_mesh"}, w=2), short) == template
