"""A look at one cell among the many that may have made it takes no quadratic time."""

from typing import Any

import pytest

from kais import labels
from kais.resources.cell import Cell
from kais_operator.controllers.cell.decide import spawn_limits
from tests.fakes import teams
from tests.step_count import assert_linear, count_steps

CELLS = 100
LIMITS = {"maxDescendants": 1000, "maxDepth": 1000}
FIELDS: dict[str, tuple[dict[str, Any], bool]] = {
    "each calls the API, without the policy": ({"apiAccess": True}, False),
    "all share the account that created them": ({"serviceAccountName": "shared"}, True),
}


@pytest.mark.parametrize(("fields", "has_policy"), FIELDS.values(), ids=FIELDS)
def test_a_cell_below_many_is_judged_in_steps_in_proportion_to_them(
    fields: dict[str, Any], has_policy: bool
) -> None:
    def steps_of(count: int) -> int:
        bodies = [teams.lone_cell(f"c{i:04d}", recursion=LIMITS, **fields) for i in range(count)]
        for body in bodies:
            creator = "system:serviceaccount:demo:shared"
            body["metadata"].setdefault("annotations", {})[labels.CREATED_BY] = creator
        cells = [Cell.from_dict(body) for body in bodies]
        problems = []
        steps = count_steps(
            lambda: problems.append(
                spawn_limits.find_violation(
                    cells[-1], spawn_limits.Ancestry(cells, has_policy=has_policy)
                )
            )
        )
        assert problems == [None]
        return steps

    assert_linear(steps_of, CELLS)
