"""A look at one cell among a thousand that may have made it takes no quadratic time."""

import time
from typing import Any

import pytest

from kais import labels
from kais.resources.cell import Cell
from kais_operator.controllers.cell.decide import spawn_limits
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
    started_at = time.process_time()
    problem = spawn_limits.find_violation(cells[-1], spawn_limits.Kin(cells, has_policy=has_policy))
    assert problem is None
    assert time.process_time() - started_at < 1
