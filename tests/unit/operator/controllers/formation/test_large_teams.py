"""How large a team may be: the bound on its cells, the size of its map, the price of a pass."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from kais.resources.cell import Cell
from kais.resources.formation import MAX_CELLS, Formation
from kais_operator.controllers.cell.decide import cell_identity
from kais_operator.controllers.cell.observe import cell
from kais_operator.controllers.formation import observe as formation
from kais_operator.controllers.formation.decide import formation as decision
from kais_operator.controllers.formation.decide.formation import FormationObserved
from kais_operator.controllers.mission.observe import mission
from kais_operator.planning.plan import Body, ObjectRef, Plan
from tests.fakes import teams
from tests.fakes.teams import FORMATION, MISSION, condition, status
from tests.fakes.world import FakeWorld, fake_world
from tests.step_count import count_steps

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MOST_STEPS = 800
"""Steps for each cell of a team. A ring takes 601; a step for each pair would add 500."""
ROUTES = ObjectRef("ConfigMap", "demo", "topology-team")
MESH = {"type": "full_mesh"}
EXCESS = (
    "the templates ask for 10000 cells, and a formation has at most 1000: lower the replicas or "
    "split the team"
)


def cells(count: int, *, templates: int = 10) -> list[Body]:
    replicas = count // templates
    return [
        {"name": f"worker-{i}", "replicas": replicas, "spec": teams.task()}
        for i in range(templates)
    ]


def resized(fake: FakeWorld, count: int, *, templates: int = 10) -> None:
    fake.cluster.edit(FORMATION, {"spec": {"cells": cells(count, templates=templates)}})


def with_uids(body: Body) -> Body:
    return {**body, "metadata": {**body["metadata"], "uid": "x", "generation": 1}}


async def test_a_team_above_the_bound_is_refused_before_anything_is_read_or_made() -> None:
    fake = fake_world(teams.team(cells=cells(10_000, templates=100), topology=MESH))
    reads: list[ObjectRef] = []
    get_child = fake.cluster.get_child

    async def counting(ref: ObjectRef) -> Body | None:
        reads.append(ref)
        return await get_child(ref)

    fake.cluster.get_child = counting  # type: ignore[method-assign]
    await fake.settle(formation.CONTROLLER, FORMATION)
    assert "Cell" not in [ref.kind for ref in reads]
    assert fake.cluster.refs("Cell") == []
    assert fake.cluster.refs("ConfigMap") == []
    assert condition(fake, "Applied", FORMATION) == (
        "False",
        "TooManyCells",
        f"{EXCESS}; nothing is written until then, and existing cells stay",
    )
    assert condition(fake, "Ready", FORMATION)[0] == "False"
    assert status(fake, FORMATION)["display"]["cells"] == "0/10000"


async def test_a_team_that_grows_above_the_bound_keeps_its_cells_until_it_is_mended() -> None:
    fake = fake_world(teams.team(cells=cells(20), topology=MESH))
    await teams.settle_team(fake)
    assert condition(fake, "Ready", FORMATION)[0] == "True"
    resized(fake, 10_000, templates=100)
    await fake.settle(formation.CONTROLLER, FORMATION)
    assert condition(fake, "Applied", FORMATION)[:2] == ("False", "TooManyCells")
    assert len(fake.cluster.refs("Cell")) == 20
    assert status(fake, FORMATION)["readyCells"] == 20
    resized(fake, 10)
    await fake.settle(formation.CONTROLLER, FORMATION)
    assert condition(fake, "Applied", FORMATION)[:2] == ("True", "Applied")
    assert condition(fake, "Ready", FORMATION)[0] == "True"
    assert len(fake.cluster.refs("Cell")) == 10


async def test_a_mission_says_that_its_team_is_above_the_bound() -> None:
    fake = fake_world(teams.team(cells=cells(10_000, templates=100)), teams.work())
    await fake.settle(formation.CONTROLLER, FORMATION)
    await fake.settle(mission.CONTROLLER, MISSION)
    assert condition(fake, "Started", MISSION) == (
        "False",
        "WaitingForFormation",
        f"Formation/demo/team creates no cells: {EXCESS}",
    )


async def test_a_mesh_whose_lists_do_not_fit_is_told_as_a_rule_and_says_so() -> None:
    fake = fake_world(teams.team(cells=cells(400), topology=MESH))
    await fake.settle(formation.CONTROLLER, FORMATION)
    data = fake.cluster.read(ROUTES)["data"]
    assert list(data) == ["topology.json"]
    assert json.loads(data["topology.json"])["rule"] == "all"
    assert condition(fake, "Applied", FORMATION)[2] == (
        "400 cells and the topology map are stored; routes.json is left out, as its lists would "
        "exceed 1048576 bytes: cells read topology.json"
    )
    resized(fake, 20)
    await fake.settle(formation.CONTROLLER, FORMATION)
    data = fake.cluster.read(ROUTES)["data"]
    assert sorted(data) == ["routes.json", "topology.json"]
    assert len(json.loads(data["routes.json"])["worker-0-0"]) == 19
    assert condition(fake, "Applied", FORMATION)[2] == "20 cells and the topology map are stored"


def test_a_team_above_the_bound_is_refused_without_a_step_for_each_cell() -> None:
    def steps_of(count: int) -> int:
        team = decision_input(cells(count, templates=100), MESH)
        return count_steps(lambda: decision.decide_formation(FormationObserved(team, {}), NOW))

    steps_of(10_000)  # what is computed once
    assert steps_of(10_000) == steps_of(2_000)


@pytest.mark.parametrize(
    "topology",
    [
        pytest.param(MESH, id="full_mesh"),
        pytest.param({"type": "ring"}, id="ring"),
        pytest.param({"type": "star", "hub": "worker-0"}, id="star"),
        pytest.param(
            {
                "type": "custom",
                "routes": [
                    {"from": f"worker-{i}", "to": [f"worker-{j}" for j in range(10)]}
                    for i in range(10)
                ],
            },
            id="custom, everybody to everybody",
        ),
    ],
)
def test_a_decision_on_the_largest_team_takes_no_step_for_each_pair_of_cells(
    topology: Body,
) -> None:
    """The event loop is blocked meanwhile."""
    team = decision_input(cells(MAX_CELLS), topology)
    bodies = {body["metadata"]["name"]: with_uids(body) for body in decision.cell_bodies(team)}
    observed = FormationObserved(team, bodies)
    plans: list[Plan] = []
    steps = count_steps(lambda: plans.append(decision.decide_formation(observed, NOW)))
    assert len(plans[0].actions) == 1, "only the map is missing"
    assert steps < MOST_STEPS * MAX_CELLS


def decision_input(templates: list[Body], topology: Body) -> Formation:
    spec: dict[str, Any] = {"cells": templates, "topology": topology}
    metadata = {"name": "team", "namespace": "demo", "uid": "u"}
    return Formation.from_dict({"metadata": metadata, "spec": spec})


@pytest.mark.parametrize("name", ["team", "my.team", "a" * 60, "a" * 52])
def test_a_name_is_wanted_where_it_is_one_of_the_cells_names(name: str) -> None:
    templates = [
        {"name": "lead", "replicas": 2, "spec": teams.task()},
        {"name": "lead-0", "replicas": 11, "spec": teams.task()},
    ]
    body = {"metadata": {"name": name}, "spec": {"cells": templates}}
    team = Formation.from_dict(body)
    expected = set(decision.desired_names(team))
    others = {
        f"{name}-lead-0",
        f"{name}-lead-2",
        f"{name}-lead-00",
        f"{name}-boss-0",
        "lead-0",
        name,
        "x-lead-0",
    }
    assert {first for first in expected | others if decision.is_desired(team, first)} == expected


async def test_a_cell_of_a_large_team_is_looked_at_without_reading_the_others() -> None:
    fake = fake_world(teams.team(cells=cells(100)))
    await fake.settle(formation.CONTROLLER, FORMATION)
    lists: list[str] = []
    list_ = fake.cluster.list

    async def counting(kind: str, *where: Any, **how: Any) -> Any:
        lists.append(kind)
        return await list_(kind, *where, **how)

    fake.cluster.list = counting  # type: ignore[method-assign]
    await fake.step(cell.CONTROLLER, ObjectRef("Cell", "demo", "team-worker-0-0"))
    assert "Cell" not in lists


@pytest.mark.parametrize("name", ["team", "my.team", "a" * 60])
def test_every_cell_has_its_address_whatever_its_name_was_cut_to(name: str) -> None:
    templates = [{"name": "lead", "replicas": 12, "spec": teams.task()}]
    team = Formation.from_dict(
        {"metadata": {"name": name, "namespace": "demo", "uid": "u"}, "spec": {"cells": templates}}
    )
    cells = [Cell.from_dict(body) for body in decision.cell_bodies(team)]
    assert [cell_identity.short_name(first_cell) for first_cell in cells] == [
        f"lead-{i}" for i in range(12)
    ]
    renamed = {"metadata": {**decision.cell_bodies(team)[0]["metadata"], "name": f"{name}-lead-07"}}
    stranger = Cell.from_dict({**decision.cell_bodies(team)[0], **renamed})
    assert cell_identity.short_name(stranger) == f"{name}-lead-07"
