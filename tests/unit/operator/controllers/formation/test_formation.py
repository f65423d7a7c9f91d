"""Formations: their Cells, who may talk to whom, and how many are ready."""

import json
from typing import Any

import pytest

from kais_operator.controllers.cell.observe import cell
from kais_operator.controllers.formation import observe as formation
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes import teams
from tests.fakes.teams import CELL, FORMATION, condition, status
from tests.fakes.world import FakeWorld, fake_world

ROUTES = ObjectRef("ConfigMap", "demo", "topology-team")


def two(**spec: Any) -> Body:
    cells = [
        {"name": "lead", "spec": teams.task()},
        {"name": "scout", "replicas": 2, "spec": teams.task()},
    ]
    return teams.team(cells=cells, **spec)


async def settled(*bodies: Body) -> FakeWorld:
    fake = fake_world(*bodies)
    await fake.settle(formation.CONTROLLER, FORMATION)
    return fake


def edit(fake: FakeWorld, **spec: Any) -> None:
    fake.cluster.edit(FORMATION, {"spec": spec})


def cell_names(fake: FakeWorld) -> list[str]:
    return [ref.name for ref in fake.cluster.refs("Cell")]


async def test_a_cell_that_was_edited_into_nonsense_is_mended() -> None:
    fake = fake_world(teams.team())
    await teams.settle_team(fake)
    fake.cluster.edit(teams.CELL, {"spec": {"container": {"image": None}}})
    await fake.settle(formation.CONTROLLER, FORMATION)
    assert fake.cluster.read(teams.CELL)["spec"]["container"]["image"] == "worker:1"


async def test_a_formation_makes_its_cells_and_their_map() -> None:
    fake = await settled(two())
    assert cell_names(fake) == ["team-lead-0", "team-scout-0", "team-scout-1"]
    manifest = fake.cluster.read(CELL)
    assert manifest["spec"]["formationRef"] == "team"
    assert manifest["metadata"]["labels"] | {"kais.io/spec-hash": ""} == {
        "app.kubernetes.io/managed-by": "kais",
        "kais.io/formation": "team",
        "kais.io/cell-template": "lead",
        "kais.io/cell": "team-lead-0",
        "kais.io/role": "cell",
        "kais.io/spec-hash": "",
    }
    assert json.loads(fake.cluster.read(ROUTES)["data"]["routes.json"]) == {
        "lead-0": ["scout-0", "scout-1"],
        "scout-0": ["lead-0", "scout-1"],
        "scout-1": ["lead-0", "scout-0"],
    }
    assert condition(fake, "Applied", FORMATION) == (
        "True",
        "Applied",
        "3 cells and the topology map are stored",
    )


async def test_a_map_that_was_made_immutable_with_other_data_is_created_again() -> None:
    fake = await settled(two())
    expected = fake.cluster.read(ROUTES)
    fake.cluster.edit(ROUTES, {"immutable": True, "data": {"routes.json": "{}"}})
    await fake.step(formation.CONTROLLER, FORMATION)
    assert condition(fake, "Applied", FORMATION)[1] == "Deleting"
    await fake.settle(formation.CONTROLLER, FORMATION)
    result = fake.cluster.read(ROUTES)
    assert result["data"] == expected["data"]
    assert "immutable" not in result
    assert result["metadata"]["uid"] != expected["metadata"]["uid"]
    assert condition(fake, "Applied", FORMATION)[1] == "Applied"


async def test_a_formation_is_ready_when_its_cells_are() -> None:
    fake = await settled(two())
    message = "0 of 3 cells are ready; " + "; ".join(
        f"team-{name} is being prepared" for name in ("lead-0", "scout-0", "scout-1")
    )
    assert condition(fake, "CellsReady", FORMATION) == ("False", "WaitingForCells", message)
    await teams.settle_team(fake)
    assert condition(fake, "CellsReady", FORMATION)[:2] == ("True", "CellsReady")
    assert condition(fake, "Ready", FORMATION) == ("True", "Ready", "3 of 3 cells are ready")
    reported_status = status(fake, FORMATION)
    assert (
        reported_status["readyCells"],
        reported_status["totalCells"],
        reported_status["display"],
    ) == (
        3,
        3,
        {"cells": "3/3"},
    )
    assert [c["name"] for c in reported_status["cells"]] == [
        "team-lead-0",
        "team-scout-0",
        "team-scout-1",
    ]


async def test_a_cell_that_is_not_ready_is_named_in_its_own_words() -> None:
    mind = {"provider": "openai", "model": "m", "systemPrompt": "help"}
    cells = [{"name": "lead", "spec": {"mind": mind, "tools": [{"name": "bash"}]}}]
    fake = fake_world(teams.team(cells=cells))
    await teams.settle_team(fake)
    state, reason, message = condition(fake, "CellsReady", FORMATION)
    assert (state, reason) == ("False", "WaitingForCells")
    assert message.startswith("0 of 1 cells are ready; team-lead-0: spec.tools: unknown: bash")
    assert condition(fake, "Ready", FORMATION)[2] == f"CellsReady: {message}"


async def test_a_settled_formation_writes_nothing() -> None:
    fake = fake_world(two())
    await teams.settle_team(fake)
    initial_count = len(fake.cluster.writes)
    await fake.step(formation.CONTROLLER, FORMATION)
    assert len(fake.cluster.writes) == initial_count


async def test_scaling_down_removes_what_was_made_last_first() -> None:
    fake = fake_world(two())
    await teams.settle_team(fake)
    edit(fake, cells=[{"name": "lead", "spec": teams.task()}])
    fake.cluster.writes.clear()
    await fake.settle(formation.CONTROLLER, FORMATION)
    deleted = [ref.name for verb, ref in fake.cluster.writes if verb == "delete"]
    assert deleted == ["team-scout-1", "team-scout-0"]
    assert cell_names(fake) == ["team-lead-0"]


async def test_a_changed_template_reaches_its_cells_and_drops_what_it_dropped() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    cells = [{"name": "lead", "spec": teams.task(container={"image": "w:1", "env": env})}]
    fake = await settled(teams.team(cells=cells))
    edit(fake, cells=[{"name": "lead", "spec": teams.task(container={"image": "w:2"})}])
    await fake.settle(formation.CONTROLLER, FORMATION)
    container = fake.cluster.read(CELL)["spec"]["container"]
    assert container["image"] == "w:2"
    assert container.get("env", []) == []


async def test_an_edited_cell_is_brought_back() -> None:
    fake = await settled(two())
    fake.cluster.edit(CELL, {"spec": {"container": {"image": "other:1"}}})
    await fake.settle(formation.CONTROLLER, FORMATION)
    assert fake.cluster.read(CELL)["spec"]["container"]["image"] == "worker:1"


async def test_a_strangers_cell_of_that_name_is_left_alone() -> None:
    fake = await settled(two(), teams.thing("Cell", "team-lead-0", spec=teams.task()))
    state, reason, message = condition(fake, "Applied", FORMATION)
    assert (state, reason) == ("False", "NameTaken")
    assert message == (
        "Cell/demo/team-lead-0 exists already and does not belong to Formation/demo/team; "
        "delete or rename it, it is left untouched"
    )
    assert "ownerReferences" not in fake.cluster.read(CELL)["metadata"]
    fake.cluster.remove(CELL)
    await fake.settle(formation.CONTROLLER, FORMATION)
    assert condition(fake, "Applied", FORMATION)[0] == "True"


async def test_a_restored_cell_without_its_owner_is_adopted() -> None:
    fake = await settled(two())
    fake.cluster.edit(CELL, {"metadata": {"ownerReferences": []}})
    await fake.settle(formation.CONTROLLER, FORMATION)
    (owner,) = fake.cluster.read(CELL)["metadata"]["ownerReferences"]
    assert owner["uid"] == fake.cluster.read(FORMATION)["metadata"]["uid"]


async def test_a_cell_that_is_going_is_made_anew_when_it_is_gone() -> None:
    fake = await settled(two())
    fake.cluster.edit(CELL, {"metadata": {"finalizers": ["x/y"]}})
    fake.cluster.remove(CELL)
    plan = await fake.step(formation.CONTROLLER, FORMATION)
    assert plan is not None
    assert plan.requeue_after is not None
    assert condition(fake, "Applied", FORMATION)[1] == "Deleting"
    fake.cluster.vanish(CELL)
    await fake.settle(formation.CONTROLLER, FORMATION)
    assert condition(fake, "Applied", FORMATION)[:2] == ("True", "Applied")


async def test_a_topology_that_names_nobody_lets_nobody_talk() -> None:
    fake = await settled(two(topology={"type": "star", "hub": "boss"}))
    state, reason, message = condition(fake, "Applied", FORMATION)
    assert (state, reason) == ("False", "TopologyInvalid")
    assert message == (
        'topology.hub: "boss" is not a cell of this formation; it has lead, scout; '
        "until that is fixed, no cell has peers"
    )
    routes = json.loads(fake.cluster.read(ROUTES)["data"]["routes.json"])
    assert routes == {"lead-0": [], "scout-0": [], "scout-1": []}
    edit(fake, topology={"type": "star", "hub": "lead"})
    await fake.settle(formation.CONTROLLER, FORMATION)
    assert condition(fake, "Applied", FORMATION)[0] == "True"


async def test_two_formations_with_equal_templates_share_nothing() -> None:
    fake = fake_world(teams.team("one"), teams.team("two"))
    for name in ("one", "two"):
        await teams.settle_team(fake, ObjectRef("Formation", "demo", name))
    assert cell_names(fake) == ["one-lead-0", "two-lead-0"]


async def test_a_long_name_is_cut_and_its_cell_keeps_its_address() -> None:
    name = "a" * 60
    fake = fake_world(teams.team(name))
    await teams.settle_team(fake, ObjectRef("Formation", "demo", name))
    (reference,) = fake.cluster.refs("Cell")
    assert len(reference.name) <= 63
    (principal,) = fake.knowledge.principals.values()
    assert principal.home.endswith("/cell:lead-0")


async def test_labels_of_a_use_are_passed_on_to_the_cells() -> None:
    labels = {"kais.io/blueprint": "b", "kais.io/revision": "3", "kais.io/instance": "i"}
    fake = await settled(two(metadata={"labels": labels}))
    assert fake.cluster.read(CELL)["metadata"]["labels"].items() >= labels.items()


async def test_what_has_no_effect_is_said() -> None:
    fake = fake_world(two(budget={"maxTotalCost": 1.0}))
    await teams.settle_team(fake)
    assert condition(fake, "Ready", FORMATION)[2] == (
        "3 of 3 cells are ready (without effect: budget: only cells with a mind report costs)"
    )


@pytest.mark.parametrize("losing", ["first", "both"])
async def test_readiness_follows_the_cells(losing: str) -> None:
    fake = fake_world(two())
    await teams.settle_team(fake)
    refs = fake.cluster.refs("Cell")
    for ref in refs[:1] if losing == "first" else refs[:2]:
        fake.cluster.edit(ref, {"spec": {"mode": "Service"}})
        await fake.settle(cell.CONTROLLER, ref)
    observation = await formation.observe_formation(fake.world, FORMATION)
    assert observation is not None
    plan = formation.CONTROLLER.decide(observation.observed, fake.clock.now())
    assert plan.status is not None
    ready = 2 if losing == "first" else 1
    assert plan.status["display"]["cells"] == f"{ready}/3"
