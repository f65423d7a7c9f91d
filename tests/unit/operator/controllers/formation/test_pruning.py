"""Cells that a Formation removes: their cost is on record before they are deleted."""

from __future__ import annotations

import json

import pytest

from kais import labels
from kais_operator import errors
from kais_operator.controllers.formation import observe as formation
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes import teams
from tests.fakes.teams import FORMATION, status
from tests.fakes.world import FakeWorld, fake_world

MIND = {"provider": "openai", "model": "scripted-1", "systemPrompt": "Work."}
SECOND = ObjectRef("Cell", "demo", "team-lead-1")
BOTH = [("patch", FORMATION), ("delete", SECOND)]


def leads(count: int) -> list[Body]:
    return [{"name": "lead", "replicas": count, "spec": {"mind": MIND}}]


async def team_of(count: int) -> FakeWorld:
    fake = fake_world(teams.team(cells=leads(count)))
    await fake.settle(formation.CONTROLLER, FORMATION)
    return fake


def spend(fake: FakeWorld, ref: ObjectRef, cost: str = "5", run_id: str = "run-1") -> None:
    runs = [[run_id, "2026-03-01T11:50:00Z", cost]]
    usage = json.dumps({"cost": cost, "tokens": 9, "priced": True, "runs": runs})
    fake.cluster.edit(ref, {"metadata": {"annotations": {labels.CELL_USAGE: usage}}})


def scale(fake: FakeWorld, count: int) -> None:
    fake.cluster.edit(FORMATION, {"spec": {"cells": leads(count)}})


def record(fake: FakeWorld) -> str | None:
    annotations = fake.cluster.read(FORMATION)["metadata"].get("annotations", {})
    text: str | None = annotations.get(labels.REMOVED_USAGE)
    return text


def removals(fake: FakeWorld, since: int = 0) -> list[tuple[str, ObjectRef]]:
    return [write for write in fake.cluster.writes[since:] if write[0] in ("patch", "delete")]


async def test_cost_of_a_cell_is_on_record_before_the_cell_is_deleted() -> None:
    fake = await team_of(2)
    spend(fake, SECOND)
    scale(fake, 1)
    await fake.settle(formation.CONTROLLER, FORMATION)
    assert removals(fake) == BOTH
    assert status(fake, FORMATION)["totalCost"] == 5


async def test_cell_that_cost_nothing_is_deleted_without_another_write() -> None:
    fake = await team_of(2)
    scale(fake, 1)
    await fake.settle(formation.CONTROLLER, FORMATION)
    assert removals(fake) == [("delete", SECOND)]
    assert record(fake) is None


async def test_formation_that_is_deleted_records_nothing() -> None:
    fake = await team_of(2)
    spend(fake, SECOND)
    fake.cluster.edit(FORMATION, {"metadata": {"finalizers": ["test"]}})
    scale(fake, 1)
    fake.cluster.remove(FORMATION)
    await fake.settle(formation.CONTROLLER, FORMATION)
    assert removals(fake) == []


async def test_removal_that_is_interrupted_counts_the_cell_once() -> None:
    fake = await team_of(2)
    spend(fake, SECOND)
    scale(fake, 1)
    fake.cluster.fail("delete", errors.ClusterUnavailable("no answer"), kind="Cell")
    with pytest.raises(errors.ClusterUnavailable):
        await fake.step(formation.CONTROLLER, FORMATION)
    recorded = record(fake)
    assert recorded is not None
    await fake.settle(formation.CONTROLLER, FORMATION)
    assert record(fake) == recorded
    assert removals(fake) == BOTH
    assert status(fake, FORMATION)["totalCost"] == 5


async def test_cell_that_is_wanted_again_before_its_deletion_counts_once() -> None:
    fake = await team_of(2)
    spend(fake, SECOND)
    scale(fake, 1)
    fake.cluster.fail("delete", errors.ClusterUnavailable("no answer"), kind="Cell")
    with pytest.raises(errors.ClusterUnavailable):
        await fake.step(formation.CONTROLLER, FORMATION)
    scale(fake, 2)
    await fake.settle(formation.CONTROLLER, FORMATION)
    assert status(fake, FORMATION)["totalCost"] == 5

    spend(fake, SECOND, "7")
    scale(fake, 1)
    await fake.settle(formation.CONTROLLER, FORMATION)
    assert SECOND not in fake.cluster.refs("Cell")
    assert status(fake, FORMATION)["totalCost"] == 7


async def test_cell_on_which_a_run_is_counted_meanwhile_is_not_deleted_with_its_old_cost() -> None:
    fake = await team_of(2)
    scale(fake, 1)
    observation = await formation.observe_formation(fake.world, FORMATION)
    assert observation is not None
    plan = formation.CONTROLLER.decide(observation.observed, fake.clock.now())
    spend(fake, SECOND)
    deletion = next(action for action in plan.actions if type(action).__name__ == "Delete")
    with pytest.raises(errors.Conflict):
        await fake.cluster.delete(
            deletion.ref, uid=deletion.uid, resource_version=deletion.resource_version
        )
    await fake.settle(formation.CONTROLLER, FORMATION)
    assert status(fake, FORMATION)["totalCost"] == 5


async def test_many_cells_leave_in_steps_that_keep_the_record_small() -> None:
    fake = await team_of(25)
    for number in range(25):
        spend(fake, ObjectRef("Cell", "demo", f"team-lead-{number}"), "2", f"run-{number}")
    scale(fake, 1)
    for left in (15, 5, 1):
        plan = await fake.step(formation.CONTROLLER, FORMATION)
        assert len(fake.cluster.refs("Cell")) == left
        assert plan is not None
        assert (plan.requeue_after is not None) == (left > 1)
        assert len(json.loads(record(fake) or "{}")["leaving"]) <= 10
    await fake.settle(formation.CONTROLLER, FORMATION)
    assert status(fake, FORMATION)["totalCost"] == 50


async def test_record_that_was_copied_from_another_formation_counts_nothing() -> None:
    fake = await team_of(2)
    spend(fake, SECOND)
    scale(fake, 1)
    await fake.settle(formation.CONTROLLER, FORMATION)
    copied = {labels.REMOVED_USAGE: record(fake)}
    other = teams.team("other", cells=leads(1), metadata={"annotations": copied})
    fake.cluster.put(other)
    ref = ObjectRef("Formation", "demo", "other")
    await fake.settle(formation.CONTROLLER, ref)
    assert "totalCost" not in status(fake, ref)


@pytest.mark.parametrize("text", ["no JSON", "[]", '{"uid": "u", "gone": 7}'])
async def test_record_that_was_edited_counts_nothing_and_stops_nothing(text: str) -> None:
    fake = await team_of(2)
    fake.cluster.edit(FORMATION, {"metadata": {"annotations": {labels.REMOVED_USAGE: text}}})
    spend(fake, SECOND)
    scale(fake, 1)
    await fake.settle(formation.CONTROLLER, FORMATION)
    assert status(fake, FORMATION)["totalCost"] == 5
