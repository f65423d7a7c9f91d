"""What the operator records about cells that may create cells, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from kais import labels
from kais.resources.cell import Cell
from kais_operator.controllers.cell.decide import spawn_limit_records as records
from kais_operator.controllers.cell.decide.spawn_limit_records import NO_RECORDS, Records
from kais_operator.planning.plan import Action, Body, Create, PatchMetadata
from tests.fakes import teams
from tests.fakes.decisions import stored

HOLDER: Body = stored(
    {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "kais-user", "namespace": "demo"},
    }
)


def cell(name: str = "root", *, uid: str | None = None, **spec: Any) -> Cell:
    body = teams.lone_cell(name, **{"apiAccess": True, **spec})
    return Cell.from_dict(stored(body, **({"uid": uid} if uid else {})))


def annotations_of(actions: tuple[Action, ...]) -> dict[str, str | None]:
    """The annotations that a decision writes, by their keys without the prefix."""
    written: dict[str, str | None] = {}
    for action in actions:
        if isinstance(action, Create):
            written |= action.body["metadata"]["annotations"]
        if isinstance(action, PatchMetadata):
            written |= action.annotations
    return written


def after(actions: tuple[Action, ...], *, previous: Body = HOLDER) -> Records:
    """The records as a later reconcile reads them."""
    metadata = previous["metadata"]
    held = {**(metadata.get("annotations") or {}), **annotations_of(actions)}
    values = {key: value for key, value in held.items() if value is not None}
    return records.read({**previous, "metadata": {**metadata, "annotations": values}})


ROOT = cell()
EMPTY = Records(HOLDER)
RECORDED = after(records.record_limits(ROOT, EMPTY, [ROOT]))
LIMITS_KEY = f"{labels.LIMITS_PREFIX}root"

LIMITS: dict[str, tuple[Cell, Records, list[Cell], dict[str, bool]]] = {
    "a cell that may not call the API has no record": (
        cell(apiAccess=False),
        EMPTY,
        [],
        {},
    ),
    "a cell is recorded at its first reconcile": (ROOT, EMPTY, [ROOT], {LIMITS_KEY: True}),
    "without the account for records it is created with the record": (
        ROOT,
        NO_RECORDS,
        [ROOT],
        {LIMITS_KEY: True},
    ),
    "a cell is recorded once": (cell(recursion={"maxDepth": 9}), RECORDED, [ROOT], {}),
    "a cell that was created again under its name is recorded again": (
        cell(uid="new"),
        RECORDED,
        [cell(uid="new")],
        {LIMITS_KEY: True},
    ),
    "the record of a deleted cell is dropped with the next write": (
        cell("other"),
        RECORDED,
        [cell("other")],
        {LIMITS_KEY: False, f"{labels.LIMITS_PREFIX}other": True},
    ),
}


@pytest.mark.parametrize(("cell", "held", "cells", "expected"), LIMITS.values(), ids=LIMITS)
def test_the_recorded_limits(
    cell: Cell, held: Records, cells: list[Cell], expected: dict[str, bool]
) -> None:
    written = annotations_of(records.record_limits(cell, held, cells))
    assert {key: value is not None for key, value in written.items()} == expected


IGNORED: dict[str, tuple[Cell, Records, str | None]] = {
    "a cell without a record ignores nothing": (ROOT, EMPTY, None),
    "a cell as recorded ignores nothing": (ROOT, RECORDED, None),
    "other limits are ignored": (cell(recursion={"maxDepth": 9}), RECORDED, "recursion"),
    "another account is ignored": (cell(serviceAccountName="x"), RECORDED, "serviceAccountName"),
    "apiAccess that was taken away still counts": (cell(apiAccess=False), RECORDED, "apiAccess"),
    "all changes are named": (
        cell(apiAccess=False, recursion={"maxDepth": 9}),
        RECORDED,
        "recursion, apiAccess",
    ),
    "the record of an earlier cell of the name does not count": (
        cell(uid="new", recursion={"maxDepth": 9}),
        RECORDED,
        None,
    ),
}


@pytest.mark.parametrize(("cell", "held", "fields"), IGNORED.values(), ids=IGNORED)
def test_changes_that_spawn_limits_ignore(cell: Cell, held: Records, fields: str | None) -> None:
    message = records.ignored_changes(cell, held)
    assert message == (
        None
        if fields is None
        else f"(spawn limits ignore the change of {fields}, since no admission policy is in force;"
        f" to accept it, remove the annotation {LIMITS_KEY} of ServiceAccount demo/kais-user)"
    )


BELOW = after(records.record_ancestors(ROOT, {"lead": 1}, EMPTY, [ROOT]))
ANCESTORS: dict[str, tuple[Cell, dict[str, int], Records, dict[str, int] | None]] = {
    "a cell that may not call the API records no ancestors": (
        cell(apiAccess=False),
        {"lead": 1},
        EMPTY,
        None,
    ),
    "a cell without ancestors records nothing": (ROOT, {}, EMPTY, None),
    "ancestors are recorded with their generations": (ROOT, {"lead": 1}, EMPTY, {"lead": 1}),
    "the account of the cell is not its own ancestor": (ROOT, {"root": 1}, EMPTY, None),
    "ancestors that are recorded are not written again": (ROOT, {"lead": 1}, BELOW, None),
    "a nearer ancestor takes the fewer generations": (
        ROOT,
        {"lead": 0, "chief": 2},
        BELOW,
        {"lead": 0, "chief": 2},
    ),
    "a farther path changes nothing": (ROOT, {"lead": 5}, BELOW, None),
}


@pytest.mark.parametrize(("cell", "above", "held", "expected"), ANCESTORS.values(), ids=ANCESTORS)
def test_the_recorded_ancestors(
    cell: Cell, above: dict[str, int], held: Records, expected: dict[str, int] | None
) -> None:
    actions = records.record_ancestors(cell, above, held, [cell])
    assert (None if not actions else after(actions).ancestors["root"]) == expected


def test_a_record_that_does_not_fit_is_a_problem_of_the_cell() -> None:
    full = {**HOLDER["metadata"], "annotations": {"notes": "x" * records.MAX_BYTES}}
    held = records.read({**HOLDER, "metadata": full})
    actions = records.record_limits(ROOT, held, [ROOT])
    assert records.size_problem(ROOT, actions, held) == (
        "the annotations of ServiceAccount demo/kais-user have no room for the record that spawn "
        "limits need (256 KiB); delete Cells with apiAccess, or other annotations"
    )
    assert records.size_problem(ROOT, actions, EMPTY) is None
