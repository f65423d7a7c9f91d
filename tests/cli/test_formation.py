"""Teams: listed, shown, drawn, scaled."""

import json

import pytest

from kais_cli.exit_status import ExitStatus
from tests.cli import objects

MIND = {"mind": {"provider": "ollama", "model": "m", "systemPrompt": "s"}}


def formation(topology, *cells, name="team"):
    spec = {
        "cells": [{"name": n, "replicas": count, "spec": MIND} for n, count in cells],
        "topology": topology,
    }
    ready = objects.condition("Ready", "False", "WaitingForPods", "1 of 2 cells are ready")
    return objects.made("Formation", name, spec, readyCells=1, totalCells=2, conditions=[ready])


def drawn(terminal, cluster, topology, *cells):
    cluster.put(formation(topology, *cells))
    assert terminal.run("formation", "topology", "team") == 0
    return terminal.out.splitlines()


def test_list_has_topology_and_readiness(terminal, cluster):
    cluster.put(formation({"type": "ring"}, ("a", 2)))
    assert terminal.run("formation", "list") == 0
    assert terminal.out.splitlines() == [
        "NAME  TOPOLOGY  CELLS  READY  AGE",
        "team  ring      1/2    False  2m",
    ]


def test_show_has_the_cells_with_why_they_are_not_ready(terminal, cluster):
    cluster.put(formation({"type": "full_mesh"}, ("a", 2)))
    message = objects.condition("Ready", "False", "ImagePullFailed", "no such image")
    spec = {**MIND, "formationRef": "team", "mode": "Service"}
    cluster.put(objects.made("Cell", "team-a-0", spec, phase="Pending", conditions=[message]))
    assert terminal.run("formation", "show", "team") == 0
    assert "team-a-0  Service  Pending  False  no such image" in terminal.out
    assert "full_mesh, 2 cells: every cell may talk to every other" in terminal.out


def test_a_cell_that_stands_by_has_the_word_of_kubectl(terminal, cluster):
    spec = {"mode": "Task", "formationRef": "team", "container": {"image": "x"}}
    ready = objects.condition("Ready", "True", "Standby", "it waits for a mission")
    display = {"status": "Standby"}
    cluster.put(
        objects.made("Cell", "team-a-0", spec, phase="Pending", display=display, conditions=[ready])
    )
    assert terminal.run("cell", "list") == 0
    assert "team-a-0  team       Task  Standby" in terminal.out
    assert terminal.run("cell", "show", "team-a-0") == 0
    assert terminal.out.startswith("team-a-0 in demo: Task, Standby\n")


def test_a_star_is_drawn_as_a_tree(terminal, cluster):
    assert drawn(terminal, cluster, {"type": "star", "hub": "lead"}, ("lead", 1), ("w", 2)) == [
        "star, 3 cells: lead in the centre; all other cells talk to it only",
        "",
        "lead-0",
        "├── w-0",
        "└── w-1",
    ]


def test_a_hierarchy_is_drawn_with_its_levels(terminal, cluster):
    topology = {
        "type": "hierarchy",
        "root": "chief",
        "routes": [{"from": "chief", "to": ["manager"]}, {"from": "manager", "to": ["clerk"]}],
    }
    cells = ("chief", 1), ("manager", 1), ("clerk", 2)
    assert drawn(terminal, cluster, topology, *cells)[2:] == [
        "chief-0",
        "└── manager-0",
        "    ├── clerk-0",
        "    └── clerk-1",
    ]


def test_a_ring_is_drawn_as_a_line_that_comes_back(terminal, cluster):
    assert drawn(terminal, cluster, {"type": "ring"}, ("a", 2), ("b", 1))[2] == (
        "a-0 ── a-1 ── b-0 ── a-0"
    )


def test_routes_are_drawn_as_a_matrix(terminal, cluster):
    topology = {"type": "custom", "routes": [{"from": "a", "to": ["b"]}]}
    assert drawn(terminal, cluster, topology, ("a", 1), ("b", 1))[2:] == [
        "       1  2",
        "a-0  1 ·  ●",
        "b-0  2    ·",
        "",
        "● may talk to the cell of that number",
    ]


def test_a_hub_that_no_cell_bears_is_said_first(terminal, cluster):
    lines = drawn(terminal, cluster, {"type": "star", "hub": "boss"}, ("a", 1))
    assert lines[0] == 'topology.hub: "boss" is not a cell of this formation; it has a'
    assert lines[-1] == "a-0 (no peers)"


def test_routes_for_programs_are_the_same(terminal, cluster):
    cluster.put(formation({"type": "full_mesh"}, ("a", 2)))
    terminal.run("formation", "topology", "team", "-o", "json")
    assert json.loads(terminal.out)["routes"] == {"a-0": ["a-1"], "a-1": ["a-0"]}


def test_scale_changes_the_one_template(terminal, cluster):
    cluster.put(formation({"type": "full_mesh"}, ("a", 1), ("b", 2)))
    assert terminal.run("formation", "scale", "team", "--cell", "b", "--replicas", "5") == 0
    assert terminal.out == "team: b scaled from 2 to 5\n"
    cells = cluster.get("Formation", "demo", "team")["spec"]["cells"]
    assert [cell["replicas"] for cell in cells] == [1, 5]


def test_scale_takes_no_more_than_a_template_may_have(terminal, cluster):
    cluster.put(formation({"type": "full_mesh"}, ("a", 1), ("b", 2)))
    run = terminal.run("formation", "scale", "team", "--cell", "b", "--replicas", "101")
    assert run == ExitStatus.USAGE
    assert "Input should be less than or equal to 100" in terminal.err
    assert terminal.run("formation", "scale", "team", "--cell", "b", "--replicas", "100") == 0


def test_the_topology_of_a_team_above_the_bound_is_its_size_and_what_to_do(terminal, cluster):
    cells = [(f"worker-{i}", 100) for i in range(100)]
    excess = (
        "the templates ask for 10000 cells, and a formation has at most 1000: lower the replicas "
        "or split the team"
    )
    lines = drawn(terminal, cluster, {"type": "full_mesh"}, *cells)
    assert lines[0] == excess
    terminal.run("formation", "topology", "team", "-o", "json")
    assert json.loads(terminal.out) == {"type": "full_mesh", "routes": {}, "problems": [excess]}


def test_a_mesh_too_wide_for_a_matrix_is_its_cells_and_not_each_pair(terminal, cluster):
    lines = drawn(terminal, cluster, {"type": "full_mesh"}, ("lead", 1), ("worker", 99))
    assert lines == [
        "full_mesh, 100 cells: every cell may talk to every other",
        "",
        "lead-0",
        "worker-0 to worker-98",
    ]


def test_scale_of_an_unknown_template_names_the_known_ones(terminal, cluster):
    cluster.put(formation({"type": "full_mesh"}, ("a", 1), ("b", 2)))
    status = terminal.run("formation", "scale", "team", "--cell", "c", "--replicas", "5")
    assert status == ExitStatus.FAILED
    assert terminal.err == "error: Formation/demo/team has no cell template c; it has a, b\n"


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (
            [{"name": "a", "replicas": "{{ seconds }}", "spec": MIND}],
            "The replicas of a come from the parameter seconds: kubectl patch bpi team",
        ),
        (
            [{"$for": {"item": "x", "in": "range(seconds)"}, "name": "a{{ x }}", "spec": MIND}],
            "The replicas of a come from the parameter seconds",
        ),
        (
            [{"name": "a", "replicas": 2, "spec": MIND}],
            "Its Blueprint fixes the replicas of a: edit the Blueprint",
        ),
    ],
    ids=["an expression", "a loop", "a number"],
)
def test_scale_of_a_use_is_refused_and_names_the_parameter(terminal, cluster, cells, message):
    body = formation({"type": "full_mesh"}, ("a", 2))
    owner = {"apiVersion": "kais.io/v1", "kind": "BlueprintInstance", "name": "team", "uid": "u"}
    body["metadata"]["ownerReferences"] = [owner]
    cluster.put(body)
    cluster.put(objects.instance("team", revisionInUse=2))
    revision = objects.revision()
    revision["spec"] = revision["spec"] | {"formation": {"cells": cells}}
    cluster.put(revision)
    status = terminal.run("formation", "scale", "team", "--cell", "a", "--replicas", "3")
    assert status == ExitStatus.FAILED
    assert "belongs to BlueprintInstance/demo/team" in terminal.err
    assert message in terminal.err
    assert cluster.patched == []
