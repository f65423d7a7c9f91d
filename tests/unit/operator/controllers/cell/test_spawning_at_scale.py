"""A look at one cell among a thousand that may have made it takes no quadratic time."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kais import labels
from kais.resources.cell import Cell
from kais_operator.controllers.formation.decide import recursion_policy
from kais_operator.controllers.formation.decide.deleted_parents import DeletedParent
from tests.fakes import teams

CELLS = 1000
LIMITS = {"maxDescendants": 1000, "maxDepth": 1000}
FIELDS: dict[str, tuple[dict[str, Any], bool]] = {
    "each calls the API, without the policy": ({"apiAccess": True}, False),
    "all share the account that created them": ({"serviceAccountName": "shared"}, True),
}


@pytest.mark.parametrize(("fields", "has_policy"), FIELDS.values(), ids=FIELDS)
def test_a_cell_below_a_thousand_is_judged_in_a_moment(
    fields: dict[str, Any], has_policy: bool
) -> None:
    bodies = [teams.lone_cell(f"c{i:04d}", recursion=LIMITS, **fields) for i in range(CELLS)]
    for body in bodies:
        creator = "system:serviceaccount:demo:shared"
        body["metadata"].setdefault("annotations", {})[labels.CREATED_BY] = creator
    cells = [Cell.from_dict(body) for body in bodies]
    began = time.process_time()
    problem = recursion_policy.problem(
        cells[-1], recursion_policy.Kin(cells, has_policy=has_policy)
    )
    assert problem is None
    assert time.process_time() - began < 1


@pytest.mark.parametrize("lasts", [None, timedelta(hours=1)])
def test_a_cell_below_hundreds_that_are_deleted_is_judged_in_a_moment(
    lasts: timedelta | None,
) -> None:
    """As many as the operator's records have room for, every other one of them deleted."""
    began = datetime(2026, 1, 1, tzinfo=UTC)
    cells = []
    for number in range(1300):
        body = teams.lone_cell(f"c{number:04d}", recursion=LIMITS, apiAccess=True)
        created = began + timedelta(minutes=number)
        body["metadata"]["creationTimestamp"] = created.isoformat()
        cells.append(Cell.from_dict(body))
    births = [began + timedelta(minutes=number) for number in range(0, 1300, 2)]
    deleted = [
        DeletedParent(cell, None if lasts is None else birth + lasts)
        for cell, birth in zip(cells[::2], births, strict=True)
    ]
    kin = recursion_policy.Kin(cells[1::2], deleted=deleted)
    start_s = time.process_time()
    assert recursion_policy.problem(cells[-1], kin) is None
    assert time.process_time() - start_s < 1
