"""The files that tell a cell its peers: sizes, versions, and that rule and lists agree."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kais import topology, topology_files
from kais.resources.formation import MAX_CELLS, FormationSpec
from tests.step_count import assert_linear, count_steps

TASK = {"container": {"image": "example/task:1"}}
CONFIG_MAP_BYTES = 1_048_576  # the API server's bound of all values of a ConfigMap
SHAPES: list[dict[str, Any]] = [
    {"type": "full_mesh"},
    {"type": "ring"},
    {"type": "star", "hub": "a"},
    {"type": "hierarchy", "root": "a"},
    {"type": "hierarchy", "root": "a", "routes": [{"from": "a", "to": ["bb"]}]},
    {"type": "custom", "routes": [{"from": "bb", "to": ["a", "bb", "a"]}]},
    {"type": "stigmergy", "blackboard": {"decayMinutes": 5}},
]


def team(shape: dict[str, Any], **replicas: int) -> FormationSpec:
    cells = [{"name": n, "replicas": count, "spec": TASK} for n, count in replicas.items()]
    return FormationSpec.from_dict({"cells": cells, "topology": shape})


def peers_by_rule(document: dict[str, Any], cell: str) -> list[str]:
    """Read `topology.json` as its documentation says, with nothing of kais."""
    assert document["version"] == 1
    names = [f"{c['name']}-{i}" for c in document["cells"] for i in range(c["replicas"])]
    if document["rule"] == "all":
        peers = set(names)
    elif document["rule"] == "ring":
        at = names.index(cell)
        peers = {names[at - 1], names[(at + 1) % len(names)]}
    else:
        templates = document["routes"].get(cell.rpartition("-")[0], [])
        peers = {name for name in names if name.rpartition("-")[0] in templates}
    return sorted(peers - {cell})


@given(st.sampled_from(SHAPES), st.integers(1, 12), st.integers(1, 12))
def test_the_documented_rule_and_the_lists_name_the_same_peers(
    shape: dict[str, Any], a: int, bb: int
) -> None:
    spec = team(shape, a=a, bb=bb)
    routing = topology.routing_of(spec)
    document = json.loads(topology_files.rule_text(routing))
    lists = json.loads(topology_files.lists_text(routing, limit=CONFIG_MAP_BYTES) or "")
    assert list(lists) == sorted(routing.cell_names())
    for cell, peers in lists.items():
        assert peers == peers_by_rule(document, cell) == list(routing.peers(cell))


@given(st.sampled_from(SHAPES), st.integers(1, 12), st.integers(1, 12))
def test_the_size_of_the_lists_is_computed_without_making_them(
    shape: dict[str, Any], a: int, bb: int
) -> None:
    routing = topology.routing_of(team(shape, a=a, bb=bb))
    text = topology_files.lists_text(routing, limit=CONFIG_MAP_BYTES)
    assert text is not None
    assert topology_files.lists_size(routing) == len(text)
    assert topology_files.lists_text(routing, limit=len(text)) == text
    assert topology_files.lists_text(routing, limit=len(text) - 1) is None


def test_a_rule_about_everybody_lists_no_cell() -> None:
    routing = topology.routing_of(team({"type": "full_mesh"}, a=3, b=100))
    assert json.loads(topology_files.rule_text(routing)) == {
        "version": 1,
        "rule": "all",
        "cells": [{"name": "a", "replicas": 3}, {"name": "b", "replicas": 100}],
    }


def test_a_star_of_the_largest_size_still_has_its_lists() -> None:
    spokes = {f"worker-{i}": 99 for i in range(10)}
    spec = team({"type": "star", "hub": "lead"}, lead=10, **spokes)
    assert sum(template.replicas for template in spec.cells) == MAX_CELLS
    text = topology_files.lists_text(topology.routing_of(spec), limit=CONFIG_MAP_BYTES)
    assert len(json.loads(text or "")["lead-0"]) == MAX_CELLS - 1


def test_the_largest_rule_that_a_spec_can_describe_fits_into_a_map() -> None:
    names = [f"{i:03d}".rjust(63, "x") for i in range(100)]
    routes = [{"from": name, "to": names} for name in names]
    spec = team({"type": "custom", "routes": routes * 2}, **dict.fromkeys(names, 10))
    routing = topology.routing_of(spec)
    assert len(topology_files.rule_text(routing)) < CONFIG_MAP_BYTES
    assert topology_files.lists_text(routing, limit=CONFIG_MAP_BYTES) is None


@pytest.mark.parametrize("shape", [{"type": "full_mesh"}, {"type": "ring"}])
def test_thousands_of_cells_are_described_in_steps_in_proportion_to_them(
    shape: dict[str, Any],
) -> None:
    def steps_of(count: int) -> int:
        spec = team(shape, **{f"worker-{i}": count // 100 for i in range(100)})
        texts: list[str] = []

        def describe() -> None:
            routing = topology.routing_of(spec)
            texts.append(topology_files.rule_text(routing))
            topology_files.lists_text(routing, limit=CONFIG_MAP_BYTES)

        steps = count_steps(describe)
        assert len(texts[0]) < 10_000
        return steps

    assert_linear(steps_of, 1_000)


def test_twenty_thousand_wrong_names_are_no_long_list() -> None:
    routes = [{"from": "a", "to": [f"no-{i}-{j}" for j in range(100)]} for i in range(200)]
    shape = {"type": "custom", "routes": routes}
    templates = {f"worker-{i}": 1 for i in range(99)}
    problems = topology.problems(team(shape, a=1, **templates))
    assert len(problems) == 100
    assert problems[0].endswith(
        "it has a, worker-0, worker-1, worker-2, worker-3, worker-4, "
        "worker-5, worker-6, worker-7, worker-8, worker-9, worker-10, worker-11, worker-12, "
        "worker-13, worker-14, worker-15, worker-16, worker-17, worker-18 and 80 more"
    )
