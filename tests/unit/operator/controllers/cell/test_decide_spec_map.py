"""The ConfigMap of a cell's spec, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from kais.reasons import Reason
from kais.resources.cell import Cell
from kais_operator.controllers.cell.decide import cell as cells
from kais_operator.controllers.cell.decide import cell_identity, cell_specs, process_limits
from kais_operator.controllers.cell.decide.cell_identity import CellInFormation
from kais_operator.planning.children import ChildDecision
from kais_operator.planning.plan import Body, Create, Plan
from tests.fakes import teams
from tests.fakes.decisions import describe, stored, summarize

NAME = "ConfigMap/solo-cell-spec"


def cell(*texts: str) -> Cell:
    """A cell with these values as arguments."""
    container = {"image": "worker:1", "args": list(texts)}
    return Cell.from_dict(stored(teams.lone_cell(container=container)))


def decide(cell: Cell, live: Body | None) -> ChildDecision | None:
    identity = cell_identity.identity(CellInFormation(cell, None), sharing=())
    parent = cells.parent_of(cell)
    return cell_specs.decide_map(cell, identity, parent, live=live, knowledge_url="http://k")


def map_of(cell: Cell, **metadata: Any) -> Body:
    decision = decide(cell, None)
    assert decision is not None
    (action,) = decision.actions
    assert isinstance(action, Create)
    return stored(action.body, **metadata)


SMALL = cell("x")
LARGE = cell("x" * 65_536, "y" * 65_536)
OTHER = cell("x" * 65_536, "z" * 65_536)
Expected = tuple[tuple[str, ...], Reason | None] | None
CASES: dict[str, tuple[Cell, Body | None, Expected]] = {
    "a small spec is a variable and needs no ConfigMap": (SMALL, None, None),
    "a large spec gets a ConfigMap": (LARGE, None, ((f"Create {NAME}",), None)),
    "a ConfigMap as desired is left alone": (LARGE, map_of(LARGE), ((), None)),
    "a changed spec changes its ConfigMap": (OTHER, map_of(LARGE), ((f"Apply {NAME}",), None)),
    "a ConfigMap of another owner is left alone": (
        LARGE,
        map_of(LARGE, ownerReferences=[], labels={}),
        ((), Reason.NAME_TAKEN),
    ),
    "a ConfigMap that is being deleted is waited for": (
        LARGE,
        map_of(LARGE, deletionTimestamp="2026-01-01T12:00:00Z"),
        ((), Reason.DELETING),
    ),
    "an argument that no process accepts is refused": (
        cell("ü" * (process_limits.STRING_BYTES // 2)),
        None,
        ((), Reason.TOO_LARGE),
    ),
    "a spec larger than a ConfigMap is refused": (
        cell(*["x" * 65_536] * 17),
        None,
        ((), Reason.TOO_LARGE),
    ),
}


@pytest.mark.parametrize(("cell", "live", "expected"), CASES.values(), ids=CASES)
def test_the_config_map_of_a_spec(cell: Cell, live: Body | None, expected: Expected) -> None:
    decision = decide(cell, live)
    assert (
        None
        if decision is None
        else (tuple(describe(action) for action in decision.actions), decision.reason)
    ) == expected
    assert decision is None or summarize(Plan(decision.actions)).conditions == {}
