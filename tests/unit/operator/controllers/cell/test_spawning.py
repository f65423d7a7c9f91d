"""Cells that cells made: the limits of those above hold, however many are made at once."""

from typing import Any

import pytest

from kais_operator.controllers.cell.observe import cell
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes import services, teams
from tests.fakes.teams import condition
from tests.fakes.world import FakeWorld, fake_world


def child(name: str, *, subject: str, recursion: Body | None = None, **metadata: Any) -> Body:
    limits = {"recursion": recursion} if recursion else {}
    return teams.thing(
        "Cell", name, spec={**services.service(), "parentRef": subject, **limits}, **metadata
    )


def parent(**recursion: Any) -> Body:
    return teams.lone_cell("root", recursion=recursion)


async def looked(*bodies: Body, has_spawn_policy: bool = True) -> FakeWorld:
    fake = fake_world(*bodies, has_spawn_policy=has_spawn_policy)
    for ref in fake.cluster.refs("Cell"):
        await fake.settle(cell.CONTROLLER, ref)
    return fake


def said(fake: FakeWorld, name: str) -> tuple[str, str, str]:
    return condition(fake, "Applied", ObjectRef("Cell", "demo", name))


async def test_of_twenty_cells_made_at_once_as_many_get_pods_as_are_allowed() -> None:
    childs = [child(f"c{number:02d}", subject="root") for number in range(20)]
    fake = await looked(parent(maxDescendants=5), *reversed(childs))
    assert [ref.name for ref in fake.cluster.refs("Deployment")] == [f"c0{n}" for n in range(5)]
    refused = [name for n in range(20) if said(fake, name := f"c{n:02d}")[1] == "SpawnRefused"]
    assert len(refused) == 15
    assert said(fake, "c07") == (
        "False",
        "SpawnRefused",
        "Cell/demo/root allows 5 cells below it, and as many are older than this one",
    )


async def test_a_place_that_becomes_free_is_taken_by_the_next_in_age() -> None:
    fake = await looked(
        parent(maxDescendants=1), child("a", subject="root"), child("b", subject="root")
    )
    plan = await fake.settle(cell.CONTROLLER, ObjectRef("Cell", "demo", "b"))
    assert plan is not None
    assert plan.requeue_after is not None
    fake.cluster.remove(ObjectRef("Cell", "demo", "a"))
    await fake.settle(cell.CONTROLLER, ObjectRef("Cell", "demo", "b"))
    assert said(fake, "b")[:2] == ("True", "Applied")


async def test_limits_hold_for_all_generations_below() -> None:
    fake = await looked(
        parent(maxDepth=2),
        child("a", subject="root"),
        child("b", subject="a"),
        child("c", subject="b"),
    )
    assert said(fake, "b")[0] == "True"
    assert said(fake, "c") == (
        "False",
        "SpawnRefused",
        "Cell/demo/root allows 2 generations of cells below it, and this is generation 3",
    )


POLICIES: dict[str, tuple[Body, str | None]] = {
    "open": ({}, None),
    "disabled": ({}, "Cell/demo/root may not create cells (spawnPolicy: disabled)"),
    "blueprint_only": (
        {},
        "Cell/demo/root may create cells of Blueprints only (spawnPolicy: blueprint_only)",
    ),
    "approval_required": (
        {},
        (
            "cells that Cell/demo/root creates need approval (spawnPolicy: approval_required); "
            "approve this one with `kais cell approve a`"
        ),
    ),
}


@pytest.mark.parametrize("policy", POLICIES)
async def test_each_policy_of_spawning_says_what_it_asks_for(policy: str) -> None:
    fake = await looked(parent(spawnPolicy=policy), child("a", subject="root"))
    text = POLICIES[policy][1]
    assert said(fake, "a")[0] == ("True" if text is None else "False")
    assert text is None or said(fake, "a")[2] == text


ALLOWED: dict[str, Body] = {
    "blueprint_only": {"labels": {"kais.io/blueprint": "reviews"}},
    "approval_required": {"annotations": {"kais.io/approved": "true"}},
}


@pytest.mark.parametrize("policy", ALLOWED)
async def test_what_a_policy_asks_for_is_enough(policy: str) -> None:
    spawned_cell = child("a", subject="root", **ALLOWED[policy])
    assert said(await looked(parent(spawnPolicy=policy), spawned_cell), "a")[0] == "True"


@pytest.mark.parametrize(
    ("annotations", "note"),
    [
        ({"kais.io/approved-by": "ana"}, " (approved by ana)"),
        ({"kais.io/approved-by": "a" * 5000}, f" (approved by {'a' * 1024})"),
        ({}, " (approved; by whom is not on record)"),
    ],
    ids=["by ana", "by a long name", "before names were on record"],
)
async def test_an_approved_cell_names_who_approved_it(annotations: Body, note: str) -> None:
    approved = {"annotations": {"kais.io/approved": "true", **annotations}}
    fake = await looked(
        parent(spawnPolicy="approval_required"), child("a", subject="root", **approved)
    )
    assert said(fake, "a")[2].endswith(note)


@pytest.mark.parametrize(
    ("policy", "has_spawn_policy"), [("open", True), ("approval_required", False)]
)
async def test_a_name_that_nobody_compared_or_asked_for_is_not_shown(
    policy: str, has_spawn_policy: bool
) -> None:
    annotations = {"kais.io/approved": "true", "kais.io/approved-by": "ana"}
    spawned_cell = child("a", subject="root", annotations=annotations)
    fake = await looked(parent(spawnPolicy=policy), spawned_cell, has_spawn_policy=has_spawn_policy)
    assert "approved by" not in said(fake, "a")[2]


async def test_a_circle_of_parents_hangs_nobody() -> None:
    fake = await looked(child("a", subject="b"), child("b", subject="a"))
    assert {said(fake, name)[0] for name in ("a", "b")} == {"True"}


async def test_a_cell_whose_parent_is_gone_stays() -> None:
    assert said(await looked(child("a", subject="nobody")), "a")[0] == "True"


async def test_a_leave_that_is_taken_back_stops_the_pod() -> None:
    fake = await looked(parent(), child("a", subject="root"))
    fake.cluster.edit(
        ObjectRef("Cell", "demo", "root"), {"spec": {"recursion": {"spawnPolicy": "disabled"}}}
    )
    await fake.settle(cell.CONTROLLER, ObjectRef("Cell", "demo", "a"))
    assert fake.cluster.read(ObjectRef("Deployment", "demo", "a"))["spec"]["replicas"] == 0


def made_by(name: str, *, account: str, annotations: Body | None = None, **spec: Any) -> Body:
    """A Cell as the admission policy lets a cell's account create it."""
    user = f"system:serviceaccount:demo:{account}"
    noted = {"kais.io/created-by": user, **(annotations or {})}
    full_fields = {**services.service(), **spec}
    return teams.thing("Cell", name, spec=full_fields, annotations=noted)


async def test_a_cell_without_a_parent_is_below_the_cell_whose_account_created_it() -> None:
    fake = await looked(parent(spawnPolicy="disabled"), made_by("a", account="root"))
    assert said(fake, "a")[1:] == ("SpawnRefused", POLICIES["disabled"][1])


async def test_a_parent_that_is_not_the_creator_takes_no_limit_away() -> None:
    lax = teams.lone_cell("lax")
    for text in ("lax", "nobody"):
        manifest = made_by("a", account="root", parentRef=text)
        fake = await looked(parent(maxDescendants=0), lax, manifest)
        assert said(fake, "a")[1] == "SpawnRefused", text


async def test_cells_that_share_an_account_share_their_limits() -> None:
    sharing = {"serviceAccountName": "shared", "recursion": {"spawnPolicy": "disabled"}}
    borrower = teams.thing("Cell", "strict", spec={**services.service(), **sharing})
    open_one = teams.thing(
        "Cell", "open", spec={**services.service(), "serviceAccountName": "shared"}
    )
    manifest = made_by("a", account="shared", parentRef="open")
    assert said(await looked(borrower, open_one, manifest), "a")[1] == "SpawnRefused"


async def test_descendants_are_counted_whether_they_name_a_parent_or_not() -> None:
    created = [
        made_by(f"c{n}", account="root", **({"parentRef": "root"} if n % 2 else {}))
        for n in range(4)
    ]
    fake = await looked(parent(maxDescendants=2), *created)
    assert [said(fake, f"c{n}")[0] for n in range(4)] == ["True", "True", "False", "False"]


async def test_who_may_approve_creates_cells_that_are_below_none() -> None:
    fake = await looked(parent(spawnPolicy="disabled"), teams.lone_cell("mine"))
    assert said(fake, "mine")[0] == "True"


def caller(**recursion: Any) -> Body:
    """A cell that may call the Kubernetes API, older than those of `made_later`."""
    body = teams.lone_cell("root", recursion=recursion)
    body["spec"]["apiAccess"] = True
    body["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
    return body


def made_later(name: str, **metadata: Any) -> Body:
    body = teams.thing("Cell", name, spec=services.service(), **metadata)
    body["metadata"]["creationTimestamp"] = "2020-01-02T00:00:00Z"
    return body


@pytest.mark.parametrize(
    "written",
    [
        {},
        {"labels": {"kais.io/blueprint": "reviews"}},
        {"annotations": {"kais.io/approved": "true"}},
        {"annotations": {"kais.io/created-by": "ada"}},
        {
            "ownerReferences": [
                {
                    "apiVersion": "kais.io/v1",
                    "kind": "Formation",
                    "name": "f",
                    "uid": "forged",
                    "controller": True,
                }
            ]
        },
    ],
)
@pytest.mark.parametrize("policy", ["disabled", "blueprint_only", "approval_required"])
async def test_without_an_admission_policy_nothing_that_a_cell_writes_passes_a_limit(
    policy: str, written: Body
) -> None:
    fake = await looked(
        caller(spawnPolicy=policy), made_later("a", **written), has_spawn_policy=False
    )
    assert said(fake, "a")[1] == "SpawnRefused"


async def test_without_an_admission_policy_an_approval_stands_on_the_callers_account() -> None:
    fake = await looked(
        caller(spawnPolicy="approval_required"),
        made_later("a"),
        made_later("b"),
        has_spawn_policy=False,
    )
    assert said(fake, "a")[2].endswith(
        "add a to kais.io/approved-cells of ServiceAccount/demo/root"
    )
    account = ObjectRef("ServiceAccount", "demo", "root")
    fake.cluster.edit(account, {"metadata": {"annotations": {"kais.io/approved-cells": "a, x"}}})
    for name in ("a", "b"):
        await fake.settle(cell.CONTROLLER, ObjectRef("Cell", "demo", name))
    assert (said(fake, "a")[0], said(fake, "b")[0]) == ("True", "False")


async def test_without_an_admission_policy_older_cells_and_those_of_formations_are_free() -> None:
    older = made_later("old")
    older["metadata"]["creationTimestamp"] = "2019-01-01T00:00:00Z"
    fake = await looked(caller(spawnPolicy="disabled"), older, has_spawn_policy=False)
    assert said(fake, "old")[0] == "True"


async def test_without_an_admission_policy_the_cells_of_a_formation_are_below_none() -> None:
    owner = {"apiVersion": "kais.io/v1", "kind": "Formation", "name": "team", "controller": True}
    team = teams.team(metadata={"uid": "u1"})
    for uid, status in (("u1", "True"), ("forged", "False")):
        manifest = made_later("team-lead-0", ownerReferences=[owner | {"uid": uid}])
        manifest["spec"]["formationRef"] = "team"
        fake = await looked(caller(maxDescendants=0), team, manifest, has_spawn_policy=False)
        assert said(fake, "team-lead-0")[0] == status, uid
    surplus = made_later("team-lead-7", ownerReferences=[owner | {"uid": "u1"}])
    surplus["spec"]["formationRef"] = "team"
    fake = await looked(caller(maxDescendants=0), team, surplus, has_spawn_policy=False)
    assert said(fake, "team-lead-7")[1] == "SpawnRefused"


async def test_without_a_cell_that_calls_the_api_nothing_is_refused() -> None:
    fake = await looked(parent(spawnPolicy="disabled"), made_later("a"), has_spawn_policy=False)
    assert said(fake, "a")[0] == "True"
