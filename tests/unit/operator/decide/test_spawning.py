"""Cells that cells made: the limits of those above hold, however many are made at once."""

from typing import Any

import pytest

from kais_operator.decide.plan import Body, ObjectRef
from kais_operator.observe import cell
from tests.fakes import services, teams
from tests.fakes.teams import condition
from tests.fakes.world import FakeWorld, fake_world


def child(name: str, *, of: str, recursion: Body | None = None, **metadata: Any) -> Body:
    limits = {"recursion": recursion} if recursion else {}
    return teams.thing(
        "Cell", name, spec={**services.service(), "parentRef": of, **limits}, **metadata
    )


def parent(**recursion: Any) -> Body:
    return teams.lone_cell("root", recursion=recursion)


async def looked(*bodies: Body) -> FakeWorld:
    fake = fake_world(*bodies)
    for ref in fake.cluster.refs("Cell"):
        await fake.settle(cell.RECONCILER, ref)
    return fake


def said(fake: FakeWorld, name: str) -> tuple[str, str, str]:
    return condition(fake, "Applied", ObjectRef("Cell", "demo", name))


async def test_of_twenty_cells_made_at_once_as_many_get_pods_as_are_allowed() -> None:
    made = [child(f"c{number:02d}", of="root") for number in range(20)]
    fake = await looked(parent(maxDescendants=5), *reversed(made))
    assert [ref.name for ref in fake.cluster.refs("Deployment")] == [f"c0{n}" for n in range(5)]
    refused = [name for n in range(20) if said(fake, name := f"c{n:02d}")[1] == "SpawnRefused"]
    assert len(refused) == 15
    assert said(fake, "c07") == (
        "False",
        "SpawnRefused",
        "Cell/demo/root allows 5 cells below it, and as many are older than this one",
    )


async def test_a_place_that_becomes_free_is_taken_by_the_next_in_age() -> None:
    fake = await looked(parent(maxDescendants=1), child("a", of="root"), child("b", of="root"))
    plan = await fake.settle(cell.RECONCILER, ObjectRef("Cell", "demo", "b"))
    assert plan is not None
    assert plan.requeue_after is not None
    fake.cluster.remove(ObjectRef("Cell", "demo", "a"))
    await fake.settle(cell.RECONCILER, ObjectRef("Cell", "demo", "b"))
    assert said(fake, "b")[:2] == ("True", "Applied")


async def test_limits_hold_for_all_generations_below() -> None:
    fake = await looked(
        parent(maxDepth=2), child("a", of="root"), child("b", of="a"), child("c", of="b")
    )
    assert said(fake, "b")[0] == "True"
    assert said(fake, "c") == (
        "False",
        "SpawnRefused",
        "Cell/demo/root allows 2 generations of cells below it, and this is generation 3",
    )


POLICIES: dict[str, tuple[Body, str | None]] = {
    "open": ({}, None),
    "disabled": ({}, "Cell/demo/root may make no cells (spawnPolicy: disabled)"),
    "blueprint_only": (
        {},
        "Cell/demo/root makes cells of Blueprints only (spawnPolicy: blueprint_only)",
    ),
    "approval_required": (
        {},
        (
            "cells that Cell/demo/root makes need approval (spawnPolicy: approval_required); "
            'annotate this one kais.io/approved: "true"'
        ),
    ),
}


@pytest.mark.parametrize("policy", POLICIES)
async def test_each_policy_of_spawning_says_what_it_asks_for(policy: str) -> None:
    fake = await looked(parent(spawnPolicy=policy), child("a", of="root"))
    words = POLICIES[policy][1]
    assert said(fake, "a")[0] == ("True" if words is None else "False")
    assert words is None or said(fake, "a")[2] == words


ALLOWED: dict[str, Body] = {
    "blueprint_only": {"labels": {"kais.io/blueprint": "reviews"}},
    "approval_required": {"annotations": {"kais.io/approved": "true"}},
}


@pytest.mark.parametrize("policy", ALLOWED)
async def test_what_a_policy_asks_for_is_enough(policy: str) -> None:
    made = child("a", of="root", **ALLOWED[policy])
    assert said(await looked(parent(spawnPolicy=policy), made), "a")[0] == "True"


async def test_a_circle_of_parents_hangs_nobody() -> None:
    fake = await looked(child("a", of="b"), child("b", of="a"))
    assert {said(fake, name)[0] for name in ("a", "b")} == {"True"}


async def test_a_cell_whose_parent_is_gone_stays() -> None:
    assert said(await looked(child("a", of="nobody")), "a")[0] == "True"


async def test_a_leave_that_is_taken_back_stops_the_pod() -> None:
    fake = await looked(parent(), child("a", of="root"))
    fake.cluster.edit(
        ObjectRef("Cell", "demo", "root"), {"spec": {"recursion": {"spawnPolicy": "disabled"}}}
    )
    await fake.settle(cell.RECONCILER, ObjectRef("Cell", "demo", "a"))
    assert fake.cluster.read(ObjectRef("Deployment", "demo", "a"))["spec"]["replicas"] == 0
