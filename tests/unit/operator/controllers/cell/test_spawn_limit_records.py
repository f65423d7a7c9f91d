"""What the operator records about cells that create cells: no deletion or patch evades a limit."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kais import labels, names
from kais.resources.cell import Cell
from kais_operator.controllers.cell.decide import spawn_limit_records, spawn_limits
from kais_operator.controllers.cell.observe import cell as observe_cell
from kais_operator.planning.plan import Body, Create, ObjectRef, PatchMetadata
from tests.fakes import services, teams
from tests.fakes.teams import condition
from tests.fakes.world import FakeWorld, fake_world

HOLDER = ObjectRef("ServiceAccount", "demo", "kais-user")


def ref(name: str) -> ObjectRef:
    return ObjectRef("Cell", "demo", name)


def lone(name: str, **spec: Any) -> Body:
    return teams.thing("Cell", name, spec={**services.service(), **spec})


def account(name: str) -> Body:
    metadata = {"name": name, "namespace": "demo"}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def spawned(name: str, *, by: str, **spec: Any) -> Body:
    """A Cell with `apiAccess`, as the admission policy lets the account of a cell create it."""
    body = lone(name, apiAccess=True, **spec)
    user = f"system:serviceaccount:demo:{by}"
    body["metadata"]["annotations"] = {labels.CREATED_BY: user}
    return body


async def settle(fake: FakeWorld, *names: str) -> None:
    for name in names:
        await fake.settle(observe_cell.CONTROLLER, ref(name))


def applied(fake: FakeWorld, name: str) -> tuple[str, str, str]:
    return condition(fake, "Applied", ref(name))


async def test_cells_of_a_deleted_parent_count_below_its_own_parent() -> None:
    fake = fake_world(
        lone("root", apiAccess=True, recursion={"maxDescendants": 2}),
        spawned("middle", by="root"),
        spawned("leaf", by="middle"),
    )
    await settle(fake, "root", "middle", "leaf")
    fake.cluster.remove(ref("middle"))
    for name in ("other", "surplus"):
        fake.clock.advance(60)
        fake.cluster.put(spawned(name, by="root"))
    await settle(fake, "leaf", "other", "surplus")
    assert [applied(fake, name)[0] for name in ("leaf", "other")] == ["True", "True"]
    assert applied(fake, "surplus")[1:] == (
        "SpawnRefused",
        "Cell/demo/root allows 2 cells below it, and as many are older than this one",
    )


async def test_a_cell_whose_parent_is_deleted_before_its_first_pass_has_the_limits_above() -> None:
    fake = fake_world(
        lone("root", recursion={"maxDepth": 2}),
        spawned("one", by="root"),
        spawned("two", by="one"),
    )
    await settle(fake, "root", "one", "two")
    fake.cluster.put(spawned("three", by="two"))
    for name in ("one", "two"):
        fake.cluster.remove(ref(name))
        fake.cluster.vanish(ObjectRef("ServiceAccount", "demo", name))
    await settle(fake, "three")
    assert applied(fake, "three")[1:] == (
        "SpawnRefused",
        "Cell/demo/root allows 2 generations of cells below it, and this is generation 3",
    )


@pytest.mark.parametrize("has_spawn_policy", [True, False])
@pytest.mark.parametrize("has_holder", [True, False])
async def test_a_record_is_written_before_the_first_pod(
    has_spawn_policy: bool, has_holder: bool
) -> None:
    fake = fake_world(lone("root"), spawned("a", by="root"), has_spawn_policy=has_spawn_policy)
    if has_holder:
        fake.cluster.put(account("kais-user"))
    await settle(fake, "a")
    records = [n for n, (_, subject) in enumerate(fake.cluster.writes) if subject == HOLDER]
    deployed = fake.cluster.writes.index(("create", ObjectRef("Deployment", "demo", "a")))
    assert len(records) == 1
    assert records[0] < deployed


@st.composite
def families(draw: st.DrawFn) -> tuple[list[Cell], set[int]]:
    """Cells of which each is spawned by an earlier one, and the middle ones to be deleted."""
    count = draw(st.integers(2, 6))
    depth = draw(st.integers(0, 4))
    deep = {"maxDepth": 1000, "maxDescendants": 1000}
    bodies = [lone("c0", recursion={**deep, "maxDepth": depth})]
    for number in range(1, count):
        parent = draw(st.integers(0, number - 1))
        shared = draw(st.sampled_from([None, None, "shared"]))
        creator = bodies[parent]["spec"].get("serviceAccountName") or f"c{parent}"
        extra_fields = {"serviceAccountName": shared} if shared else {}
        bodies.append(spawned(f"c{number}", by=creator, recursion=deep, **extra_fields))
    return [Cell.from_dict(body) for body in bodies], draw(st.sets(st.integers(1, count - 1)))


def recorded(cells: list[Cell]) -> spawn_limit_records.Records:
    """Record each cell in turn, as its first pass does."""
    holder: Body = {"metadata": {"resourceVersion": "1", "annotations": {}}}
    for number, first in enumerate(cells):
        records = spawn_limit_records.read(holder)
        ancestry = spawn_limits.Ancestry(cells[: number + 1], has_policy=True, records=records)
        for action in spawn_limits.record_actions(first, ancestry):
            assert isinstance(action, PatchMetadata)
            holder["metadata"]["annotations"] |= action.annotations
    return spawn_limit_records.read(holder)


@settings(max_examples=40)
@given(families())
def test_no_deletion_of_parents_frees_a_cell_of_the_limits_further_above(
    family: tuple[list[Cell], set[int]],
) -> None:
    cells, deleted = family
    records = recorded(cells)
    remaining_count = [first for number, first in enumerate(cells) if number not in deleted]
    initial_ancestry = spawn_limits.Ancestry(cells, has_policy=True, records=records)
    final_ancestry = spawn_limits.Ancestry(remaining_count, has_policy=True, records=records)
    for first in remaining_count:
        if spawn_limits.find_violation(first, initial_ancestry) is not None:
            assert spawn_limits.find_violation(first, final_ancestry) is not None, (
                first.metadata.name
            )


def hold(fake: FakeWorld, name: str) -> None:
    """Delete a Cell that a finalizer holds; its pods run on."""
    fake.cluster.edit(ref(name), {"metadata": {"finalizers": ["example.com/hold"]}})
    fake.cluster.remove(ref(name))
    assert fake.cluster.read(ref(name))["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize("has_spawn_policy", [True, False])
async def test_a_cell_that_is_being_deleted_counts_until_it_is_gone(
    has_spawn_policy: bool,
) -> None:
    root = lone("root", apiAccess=True, recursion={"maxDescendants": 1})
    fake = fake_world(root, has_spawn_policy=has_spawn_policy)
    fake.clock.advance(60)
    fake.cluster.put(spawned("a", by="root"))
    await settle(fake, "root", "a")
    hold(fake, "a")
    fake.clock.advance(60)
    fake.cluster.put(spawned("b", by="root"))
    plan = await fake.settle(observe_cell.CONTROLLER, ref("b"))
    assert applied(fake, "b")[1:] == (
        "SpawnRefused",
        "Cell/demo/root allows 1 cells below it, and as many are older than this one",
    )
    assert plan is not None
    assert plan.requeue_after is not None
    fake.cluster.vanish(ref("a"))
    await settle(fake, "b")
    assert applied(fake, "b")[0] == "True"


@pytest.mark.parametrize("has_spawn_policy", [True, False])
async def test_a_parent_that_is_being_deleted_limits_its_cells_until_it_is_gone(
    has_spawn_policy: bool,
) -> None:
    root = lone("root", apiAccess=True, recursion={"maxDescendants": 1})
    fake = fake_world(root, has_spawn_policy=has_spawn_policy)
    fake.clock.advance(60)
    fake.cluster.put(spawned("a", by="root"))
    await settle(fake, "root", "a")
    hold(fake, "root")
    fake.clock.advance(60)
    fake.cluster.put(spawned("b", by="root"))
    await settle(fake, "a", "b")
    assert [applied(fake, name)[0] for name in ("a", "b")] == ["True", "False"]
    assert applied(fake, "b")[1] == "SpawnRefused"
    fake.cluster.vanish(ref("root"))
    await settle(fake, "b")
    assert applied(fake, "b")[0] == "True"


async def test_the_record_of_a_cell_that_is_being_deleted_stays() -> None:
    root = lone("root", apiAccess=True, recursion={"maxDescendants": 1})
    fake = fake_world(root, has_spawn_policy=False)
    await settle(fake, "root")
    fake.cluster.edit(ref("root"), {"spec": {"recursion": {"maxDescendants": 9}}})
    hold(fake, "root")
    for name in ("a", "b"):
        fake.clock.advance(60)
        fake.cluster.put(lone(name, apiAccess=True))
    await settle(fake, "a", "b")
    assert "limits.kais.io/root" in fake.cluster.read(HOLDER)["metadata"]["annotations"]
    assert applied(fake, "b")[1] == "SpawnRefused"


EVASIONS: dict[str, Body] = {
    "recursion": {"recursion": {"maxDescendants": 9}},
    "serviceAccountName": {"serviceAccountName": "other"},
    "apiAccess": {"apiAccess": False},
}


@pytest.mark.parametrize("field", EVASIONS)
async def test_without_an_admission_policy_a_patched_parent_keeps_its_first_limits(
    field: str,
) -> None:
    root = lone("root", apiAccess=True, recursion={"spawnPolicy": "approval_required"})
    other_account = account("other")
    other_account["metadata"]["annotations"] = {
        labels.ALLOW_CELLS: "true",
        labels.APPROVED_CELLS: "made",
    }
    patch = EVASIONS[field]
    if field == "recursion":
        root["spec"]["recursion"] = {"maxDescendants": 0}
    fake = fake_world(root, other_account, has_spawn_policy=False)
    await settle(fake, "root")
    fake.cluster.edit(ref("root"), {"spec": patch})
    fake.clock.advance(60)
    fake.cluster.put(lone("made"))
    await settle(fake, "root", "made")
    assert applied(fake, "made")[1] == "SpawnRefused"
    _, _, message = condition(fake, "Ready", ref("root"))
    assert message.endswith(
        f"(spawn limits ignore the change of {field}, since no admission policy is in force; to "
        "accept it, remove the annotation limits.kais.io/root of ServiceAccount demo/kais-user)"
    )


async def test_a_person_accepts_changed_limits_by_removing_their_record() -> None:
    fake = fake_world(
        lone("root", apiAccess=True, recursion={"maxDescendants": 0}), has_spawn_policy=False
    )
    await settle(fake, "root")
    fake.clock.advance(60)
    fake.cluster.put(lone("made"))
    fake.cluster.edit(ref("root"), {"spec": {"recursion": {"maxDescendants": 1}}})
    plan = await fake.settle(observe_cell.CONTROLLER, ref("root"))
    assert plan is not None
    assert plan.requeue_after is not None
    await settle(fake, "made")
    assert applied(fake, "made")[1] == "SpawnRefused"
    fake.cluster.edit(HOLDER, {"metadata": {"annotations": {"limits.kais.io/root": None}}})
    await settle(fake, "root", "made")
    assert applied(fake, "made")[0] == "True"
    assert "ignore" not in condition(fake, "Ready", ref("root"))[2]


async def test_a_cell_created_anew_has_the_limits_of_its_own_spec() -> None:
    root = lone("root", apiAccess=True, recursion={"maxDescendants": 0})
    fake = fake_world(root, has_spawn_policy=False)
    await settle(fake, "root")
    fake.cluster.vanish(ref("root"))
    fake.cluster.collect_garbage()
    replacement = lone("root", apiAccess=True, recursion={"maxDescendants": 3})
    replacement["metadata"]["uid"] = "another"
    fake.cluster.put(replacement)
    await settle(fake, "root")
    annotations = fake.cluster.read(HOLDER)["metadata"]["annotations"]
    assert json.loads(annotations["limits.kais.io/root"])["recursion"]["maxDescendants"] == 3


async def test_records_of_deleted_cells_are_dropped_with_the_next_record() -> None:
    fake = fake_world(lone("old", apiAccess=True), has_spawn_policy=False)
    await settle(fake, "old")
    fake.cluster.vanish(ref("old"))
    fake.cluster.put(lone("new", apiAccess=True))
    await settle(fake, "new")
    assert set(fake.cluster.read(HOLDER)["metadata"]["annotations"]) == {"limits.kais.io/new"}


def test_an_unreadable_record_is_written_anew() -> None:
    first = Cell.from_dict(lone("root", apiAccess=True))
    for text in ("", "7", "{}", '{"cell": "root", "uid": "u", "account": "a", "recursion": 3}'):
        holder = {
            "metadata": {"resourceVersion": "1", "annotations": {"limits.kais.io/root": text}}
        }
        ancestry = spawn_limits.Ancestry([first], records=spawn_limit_records.read(holder))
        (action,) = spawn_limits.record_actions(first, ancestry)
        assert isinstance(action, PatchMetadata)
        assert list(action.annotations) == ["limits.kais.io/root"]


async def test_fields_of_a_version_that_recorded_deletions_are_ignored() -> None:
    root = lone("root", apiAccess=True, recursion={"maxDescendants": 1})
    fake = fake_world(root, has_spawn_policy=False)
    await settle(fake, "root")
    early = json.loads(fake.cluster.read(HOLDER)["metadata"]["annotations"]["limits.kais.io/root"])
    times = {"created": "2026-01-01T00:00:00+00:00", "missingSince": "2026-01-02T00:00:00+00:00"}
    records = {
        "limits.kais.io/root": {**early, **times},
        "limits.kais.io/gone": {**early, **times, "cell": "gone", "uid": "gone-uid"},
        "limits.kais.io/lead": {"cell": "lead", "uid": "lead-uid", "created": times["created"]},
    }
    annotations = {key: json.dumps(record) for key, record in records.items()}
    fake.cluster.edit(HOLDER, {"metadata": {"annotations": annotations}})
    assert set(spawn_limit_records.read(fake.cluster.read(HOLDER)).limits) == {"root", "gone"}
    fake.cluster.edit(ref("root"), {"spec": {"recursion": {"maxDescendants": 9}}})
    for name in ("a", "b"):
        fake.clock.advance(60)
        fake.cluster.put(lone(name, apiAccess=True))
        await settle(fake, name)
    assert applied(fake, "a")[0] == "True"
    assert applied(fake, "b")[1:] == (
        "SpawnRefused",
        "Cell/demo/root allows 1 cells below it, and as many are older than this one",
    )
    assert "limits.kais.io/gone" not in fake.cluster.read(HOLDER)["metadata"]["annotations"]


def long_name(number: int) -> str:
    return f"c{number:03d}-" + "x" * 248


def size(fake: FakeWorld) -> int:
    return spawn_limit_records.size(fake.cluster.read(HOLDER)["metadata"]["annotations"])


def holder_of(ancestors: dict[str, dict[str, int]], *, filler: int = 0) -> Body:
    """The ServiceAccount with these records, beside another annotation of a size."""
    annotations = {
        labels.ANCESTORS_PREFIX + names.label_value(name): json.dumps(
            {"account": name, "above": above}
        )
        for name, above in ancestors.items()
    }
    annotations["example.com/filler"] = "x" * filler
    return {"metadata": {"resourceVersion": "1", "annotations": annotations}}


def test_ancestors_of_accounts_without_cells_are_dropped_when_room_runs_out() -> None:
    first = Cell.from_dict(spawned("a", by="root"))
    ancestors = {f"gone-{n}": {"root": 1} for n in range(9)} | {"root": {"older": 1}}
    for filler in (0, spawn_limit_records.DROPPED_FROM):
        records = spawn_limit_records.read(holder_of(ancestors, filler=filler))
        (action,) = spawn_limit_records.record_ancestors(first, {"root": 1}, records, [first])
        assert isinstance(action, PatchMetadata)
        dropped = [key for key, value in action.annotations.items() if value is None]
        assert len(dropped) == (9 if filler else 0)
        assert "ancestors.kais.io/root" not in dropped, "a living Cell was created by it"


def test_an_account_that_is_dropped_leaves_the_ancestors_of_others_too() -> None:
    first = Cell.from_dict(spawned("a", by="root"))
    second = Cell.from_dict(spawned("other", by="root"))
    ancestors = {"gone": {"root": 1}, "other": {"gone": 1, "root": 2, "unrecorded": 3}}
    holder = holder_of(ancestors, filler=spawn_limit_records.DROPPED_FROM)
    above = {"gone": 1, "root": 2}
    (action,) = spawn_limit_records.record_ancestors(
        first, above, spawn_limit_records.read(holder), [first, second]
    )
    assert isinstance(action, PatchMetadata)
    remaining_count = {key: text for key, text in action.annotations.items() if text is not None}
    final_state = spawn_limit_records.read({"metadata": {"annotations": remaining_count}})
    assert final_state.ancestors == {"a": {"root": 2}, "other": {"root": 2, "unrecorded": 3}}
    assert action.annotations["ancestors.kais.io/gone"] is None


@pytest.mark.parametrize("is_shared", [False, True])
async def test_short_lived_cells_do_not_fill_the_account_that_bears_the_records(
    is_shared: bool,
) -> None:
    """Few live at a time; under a shared account, one record names ever more of them."""
    holder = account("kais-user")
    filler = "x" * (spawn_limit_records.DROPPED_FROM - 16 * 1024)
    holder["metadata"]["annotations"] = {"example.com/filler": filler}
    fake = fake_world(lone(long_name(0), apiAccess=True), holder)
    shared = account("shared")
    shared["metadata"]["annotations"] = {labels.ALLOW_CELLS: "true"}
    fake.cluster.put(shared)
    parent = long_name(0)
    for number in range(1, 4):
        fake.cluster.put(spawned(long_name(number), by=parent))
        parent = long_name(number)
        await settle(fake, parent)
    fake.cluster.put(spawned("keeper", by=parent, serviceAccountName="shared"))
    await settle(fake, "keeper")
    for number in range(100, 180):
        created = [spawned(long_name(number), by=parent)]
        if is_shared:
            below = spawned(f"b{number}", by=long_name(number), serviceAccountName="shared")
            created.append(below)
        for body in created:
            fake.cluster.put(body)
            await settle(fake, body["metadata"]["name"])
            assert applied(fake, body["metadata"]["name"])[0] == "True", number
        for body in created:
            fake.cluster.vanish(ref(body["metadata"]["name"]))
        assert size(fake) <= spawn_limit_records.DROPPED_FROM, number


@pytest.mark.parametrize("has_spawn_policy", [True, False])
async def test_a_cell_without_room_for_its_record_says_so_and_gets_no_pod(
    has_spawn_policy: bool,
) -> None:
    full = account("kais-user")
    filler = {"example.com/filler": "x" * (spawn_limit_records.MAX_BYTES - 50)}
    full["metadata"]["annotations"] = filler
    fake = fake_world(lone("root"), full, has_spawn_policy=has_spawn_policy)
    fake.cluster.put(spawned("a", by="root"))
    await settle(fake, "a")
    assert applied(fake, "a") == (
        "False",
        "ApplyFailed",
        (
            "the annotations of ServiceAccount demo/kais-user have no room for the record that "
            "spawn limits need (256 KiB); delete Cells with apiAccess, or other annotations"
        ),
    )
    assert fake.cluster.refs("Deployment") == []
    fake.cluster.edit(HOLDER, {"metadata": {"annotations": {"example.com/filler": None}}})
    await settle(fake, "a")
    assert applied(fake, "a")[0] == "True"


def test_without_a_holder_the_record_creates_it() -> None:
    first = Cell.from_dict(spawned("a", by="root"))
    (action,) = spawn_limit_records.record_ancestors(
        first, {"root": 1}, spawn_limit_records.NO_RECORDS, [first]
    )
    assert isinstance(action, Create)
    assert action.body["metadata"]["name"] == "kais-user"
