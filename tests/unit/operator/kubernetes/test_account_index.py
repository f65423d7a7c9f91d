"""Cells that share an account: their nearest common scope, whatever their number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kais import labels, names, scopes
from kais.resources.cell import Cell
from kais.resources.formation import Formation
from kais.scopes import Scope
from kais_operator.controllers.cell.decide import cell_identity
from kais_operator.controllers.cell.decide.cell_identity import CellInFormation
from kais_operator.informer.cache import Cache
from kais_operator.kubernetes import account_index
from kais_operator.kubernetes.account_index import AccountIndex
from kais_operator.planning.plan import Body, ObjectRef
from tests.step_count import count_steps

MOST_STEPS = 50
"""Steps for each team that shares an account; reading its cells would take hundreds."""
TASK = {"mode": "Task", "container": {"image": "worker:1"}}


def formation(name: str, blueprint: str | None = None, *, version: int = 1) -> Body:
    marks = {labels.BLUEPRINT: blueprint} if blueprint is not None else {}
    return thing("Formation", name, {"cells": [{"name": "lead", "spec": TASK}]}, marks, version)


def cell(team: str | None, index: int, *, account: str | None = "shared", version: int = 1) -> Body:
    spec: Body = {**TASK, "serviceAccountName": account} if account is not None else {**TASK}
    if team is None:
        return thing("Cell", f"lone-{index}", spec, {}, version)
    name = names.cell_name(team, "lead", index)
    return thing(
        "Cell", name, {**spec, "formationRef": team}, {labels.CELL_TEMPLATE: "lead"}, version
    )


def thing(kind: str, name: str, spec: Body, marks: dict[str, str], version: int) -> Body:
    return {
        "apiVersion": "kais.io/v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": "demo",
            "uid": f"uid-{kind}-{name}",
            "generation": 1,
            "resourceVersion": str(version),
            "labels": marks,
        },
        "spec": spec,
    }


def index_of(*bodies: Body) -> AccountIndex:
    index = AccountIndex()
    for body in bodies:
        index.put(body)
    return index


def own_scope(body: Body, teams: dict[str, Body]) -> Scope:
    result = teams.get(body["spec"].get("formationRef", ""))
    team = Formation.from_dict(result) if result is not None else None
    return cell_identity.own_scope(CellInFormation(Cell.from_dict(body), team))


def home(index: AccountIndex, body: Body, teams: dict[str, Body]) -> Scope:
    other_scopes = index.scopes("demo", "shared", excluding=body["metadata"]["name"])
    return scopes.nearest_common([own_scope(body, teams), *other_scopes])


TEAMS = {
    "one": formation("one", "doctor"),
    "two": formation("two", "doctor"),
    "three": formation("three"),
}
TEXT_STRATEGY = st.tuples(
    st.sampled_from([None, "one", "two", "three", "missing"]), st.integers(0, 3)
)


@given(st.sets(TEXT_STRATEGY, min_size=1), st.data())
def test_the_few_scopes_have_the_nearest_common_one_of_all(
    places: set[tuple[str | None, int]], data: st.DataObject
) -> None:
    bodies = [cell(team, number) for team, number in sorted(places, key=str)]
    index = index_of(*TEAMS.values(), *bodies)
    draw = data.draw(st.sampled_from(bodies))
    scope = scopes.nearest_common([own_scope(body, TEAMS) for body in bodies])
    assert home(index, draw, TEAMS) == scope
    assert len(index.scopes("demo", "shared", excluding="")) <= 4
    for body in bodies:
        if body is not draw:
            index.drop("Cell", "demo", body["metadata"]["name"])
    assert home(index, draw, TEAMS) == own_scope(draw, TEAMS)


def test_cells_of_other_accounts_and_those_that_go_do_not_count() -> None:
    going = cell("one", 2)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    index = index_of(cell("one", 0), cell("one", 1, account="other"), cell(None, 1, account=None))
    assert index.scopes("demo", "shared", excluding="one-lead-0") == []
    index.put(cell("one", 2))
    assert len(index.scopes("demo", "shared", excluding="one-lead-0")) == 1
    index.put(going)
    assert index.scopes("demo", "shared", excluding="one-lead-0") == []
    assert index.scopes("elsewhere", "shared", excluding="") == []


def test_a_formation_that_changes_its_segment_moves_its_cells() -> None:
    first_cell = cell("one", 0)
    index = index_of(*TEAMS.values(), first_cell, cell("two", 1))
    assert str(home(index, first_cell, TEAMS)) == "realm:demo/formation:doctor"
    changed = formation("two", "nurse")
    changed["metadata"]["generation"] = 2
    index.put(changed)
    assert str(home(index, first_cell, TEAMS)) == "realm:demo"


def test_a_status_of_a_cell_takes_no_step_for_the_other_cells_and_few_for_the_teams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads = Reads()
    monkeypatch.setattr(account_index, "Cell", reads)
    few = steps_of_a_status(reads, teams=10, cells=10)
    assert steps_of_a_status(reads, teams=10, cells=1_000) == few
    assert steps_of_a_status(reads, teams=110, cells=10) < few + 100 * MOST_STEPS


class Reads:
    """Counts how often a cell is read; a status is no reason to read one again."""

    def __init__(self) -> None:
        self.count = 0

    def from_dict(self, body: Body) -> Cell:
        self.count += 1
        return Cell.from_dict(body)


def steps_of_a_status(reads: Reads, *, teams: int, cells: int) -> int:
    """Count the steps of a status and of the question for an account that so many share."""
    uses = {f"use-{number}": formation(f"use-{number}", "doctor") for number in range(teams)}
    bodies = [*(cell("one", number) for number in range(cells)), *(cell(name, 0) for name in uses)]
    cache = Cache(labelled=())
    for body in (*TEAMS.values(), *uses.values(), *bodies):
        cache.put(body, is_confirmed=True)
    count_of_reads = reads.count
    bodies[0]["metadata"]["resourceVersion"] = "2"

    def answer() -> None:
        assert cache.put(bodies[0], is_confirmed=True)
        cache.accounts.scopes("demo", "shared", excluding=bodies[0]["metadata"]["name"])

    steps = count_steps(answer)
    assert reads.count == count_of_reads
    return steps


def test_memory_feeds_the_index_and_takes_from_it_what_goes() -> None:
    cache = Cache(labelled=())
    cache.put(cell("one", 0), is_confirmed=True)
    cache.put(cell("one", 1), is_confirmed=True)
    assert len(cache.accounts.scopes("demo", "shared", excluding="one-lead-0")) == 1
    cache.put(cell("one", 1, version=2), is_confirmed=True)
    assert len(cache.accounts.scopes("demo", "shared", excluding="one-lead-0")) == 1
    cache.remove(ObjectRef("Cell", "demo", "one-lead-1"), "uid-Cell-one-lead-1")
    assert cache.accounts.scopes("demo", "shared", excluding="one-lead-0") == []
    cache.clear()
    assert cache.accounts.scopes("demo", "shared", excluding="") == []
