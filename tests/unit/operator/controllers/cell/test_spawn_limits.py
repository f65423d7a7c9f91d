"""Whether a cell may have been created by another one, rule by rule."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from kais.resources.cell import Cell
from kais_operator.controllers.cell.decide import spawn_limits
from kais_operator.controllers.cell.decide.spawn_limits import Ancestry
from tests.fakes import teams

OLDER, CHILD, YOUNGER = "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z", "2026-01-01T00:00:03Z"


def cell(name: str, *, subject: str | None = None, created: str = CHILD, **metadata: Any) -> Cell:
    recursion = metadata.pop("recursion", None)
    body = teams.lone_cell(name, **({"recursion": recursion} if recursion else {}))
    if subject is not None:
        body["spec"]["parentRef"] = subject
    body["metadata"] |= {"uid": f"uid-{name}", "creationTimestamp": created, **metadata}
    return Cell.from_dict(body)


@dataclass(frozen=True)
class Case:
    """The limits of the cell `root`, the cells below it, and why the cell `a` is refused."""

    expected: str | None
    recursion: dict[str, Any] = field(default_factory=dict)
    others: tuple[Cell, ...] = ()
    parent: str | None = "root"
    metadata: dict[str, Any] = field(default_factory=dict)
    deleting_root: bool = False


NEEDS_APPROVAL = (
    "cells that Cell/demo/root creates need approval (spawnPolicy: approval_required); "
    "approve this one with `kais cell approve a`"
)
MESSAGE = "Cell/demo/root allows 1 cells below it, and as many are older than this one"
CASES: dict[str, Case] = {
    "a cell without a parent may be": Case(None, {"spawnPolicy": "disabled"}, parent=None),
    "a parent that does not exist limits nothing": Case(None, parent="nobody"),
    "policy open allows cells": Case(None, {"spawnPolicy": "open"}),
    "policy disabled refuses cells": Case(
        "Cell/demo/root may not create cells (spawnPolicy: disabled)",
        {"spawnPolicy": "disabled"},
    ),
    "policy blueprint_only refuses a cell without a Blueprint": Case(
        "Cell/demo/root may create cells of Blueprints only (spawnPolicy: blueprint_only)",
        {"spawnPolicy": "blueprint_only"},
    ),
    "policy blueprint_only allows a cell of a Blueprint": Case(
        None,
        {"spawnPolicy": "blueprint_only"},
        metadata={"labels": {"kais.io/blueprint": "reviews"}},
    ),
    "policy approval_required refuses a cell without approval": Case(
        NEEDS_APPROVAL, {"spawnPolicy": "approval_required"}
    ),
    "policy approval_required allows a cell that is approved": Case(
        None,
        {"spawnPolicy": "approval_required"},
        metadata={"annotations": {"kais.io/approved": "true"}},
    ),
    "one cell too many is refused when the others are older": Case(
        MESSAGE, {"maxDescendants": 1}, (cell("b", subject="root", created=OLDER),)
    ),
    "the older of two cells has the place": Case(
        None, {"maxDescendants": 1}, (cell("b", subject="root", created=YOUNGER),)
    ),
    "a cell deeper than the limit is refused": Case(
        "Cell/demo/root allows 1 generations of cells below it, and this is generation 2",
        {"maxDepth": 1},
        (cell("b", subject="root", created=OLDER),),
        parent="b",
    ),
    "a parent that is being deleted limits still": Case(
        "Cell/demo/root may not create cells (spawnPolicy: disabled)",
        {"spawnPolicy": "disabled"},
        deleting_root=True,
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_cell_with_the_admission_policy_in_force(case: Case) -> None:
    deletion = {"deletionTimestamp": YOUNGER, "finalizers": ["x/y"]} if case.deleting_root else {}
    root = cell("root", created="2026-01-01T00:00:00Z", recursion=case.recursion, **deletion)
    subject = cell("a", subject=case.parent, **case.metadata)
    ancestry = Ancestry((root, *case.others, subject), has_policy=True)
    assert spawn_limits.find_violation(subject, ancestry) == case.expected
