"""Index of the cells that borrow a ServiceAccount, and of their scopes.

Cells that share an account have their nearest common scope as their home, so each reconcile of one
needs the others. A lookup takes as long for a thousand cells as for two: cells are counted by
formation and location.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from kais.errors import InvalidResource
from kais.resources.cell import Cell
from kais.resources.formation import Formation
from kais.scopes import Scope
from kais_operator.controllers.cell.decide import cell_identity
from kais_operator.planning import memo
from kais_operator.planning.plan import Body

_MAX_CELLS_PER_SCOPE = 2
"""Two different cells have the same nearest common scope as any number of them."""
_Key = tuple[str, str]  # namespace and name
_Location = tuple[str | None, str]  # formationRef, and the name of the cell in its scope


@dataclass
class _Account:
    """The number of cells that borrow one account, by formation and location."""

    locations: dict[str | None, Counter[str]] = field(default_factory=dict)

    def add(self, location: _Location) -> None:
        formation, cell = location
        self.locations.setdefault(formation, Counter())[cell] += 1

    def remove(self, location: _Location) -> None:
        formation, cell = location
        cells = self.locations[formation]
        cells[cell] -= 1
        if not cells[cell]:
            del cells[cell]
        if not cells:
            del self.locations[formation]


@dataclass(frozen=True)
class _Borrower:
    """A cell as it was counted, and the state that this depends on."""

    account: _Key
    location: _Location
    state: bytes


class AccountIndex:
    """Needs every change of a Cell or Formation."""

    def __init__(self) -> None:
        self._borrowers: dict[_Key, _Borrower] = {}
        self._accounts: dict[_Key, _Account] = {}
        self._segments: dict[_Key, tuple[bytes, str]] = {}

    def put(self, body: Body) -> None:
        """Record a version of an object; other kinds are ignored."""
        if body["kind"] == "Cell":
            self._put_cell(body)
        elif body["kind"] == "Formation":
            self._put_formation(body)

    def drop(self, kind: str, namespace: str, name: str) -> None:
        """Record that an object was deleted."""
        if kind == "Cell":
            self._drop_cell((namespace, name))
        elif kind == "Formation":
            self._segments.pop((namespace, name), None)

    def scopes(self, namespace: str, account: str, *, excluding: str) -> list[Scope]:
        """Return scopes of the cells that borrow an account, except the cell called `excluding`.

        At most four, two in each of two formations: their nearest common scope is that of all.
        """
        borrowers = self._accounts.get((namespace, account))
        if borrowers is None:
            return []
        excluded_borrower = self._borrowers.get((namespace, excluding))
        excluded_location = (
            excluded_borrower.location
            if excluded_borrower is not None and excluded_borrower.account == (namespace, account)
            else None
        )
        by_segment: dict[str | None, set[str]] = {}
        for formation, cells in borrowers.locations.items():
            segment = None if formation is None else self._segment(namespace, formation)
            names = by_segment.setdefault(segment, set())
            if len(names) < _MAX_CELLS_PER_SCOPE:
                excluded_cell = (
                    excluded_location[1]
                    if excluded_location is not None and excluded_location[0] == formation
                    else None
                )
                names.update(_other_cells(cells, excluded_cell))
            if (
                len([segment_names for segment_names in by_segment.values() if segment_names])
                == _MAX_CELLS_PER_SCOPE
            ):
                break
        return [
            Scope(namespace, segment, name)
            for segment, names in by_segment.items()
            for name in sorted(names)[:_MAX_CELLS_PER_SCOPE]
        ]

    def _segment(self, namespace: str, formation: str) -> str:
        _, segment = self._segments.get((namespace, formation), (None, None))
        return segment or cell_identity.segment(formation)

    def _put_cell(self, body: Body) -> None:
        metadata = body["metadata"]
        key = (metadata.get("namespace") or "", metadata["name"])
        account = (body.get("spec") or {}).get("serviceAccountName")
        previous = self._borrowers.get(key)
        if account is None or metadata.get("deletionTimestamp"):
            self._drop_cell(key)
            return
        state = _state(metadata)
        if previous is not None and previous.state == state:
            return
        self._drop_cell(key)
        try:
            cell = Cell.from_dict(body)
        except InvalidResource:
            return
        location = _location(cell)
        self._borrowers[key] = _Borrower((key[0], account), location, state)
        self._accounts.setdefault((key[0], account), _Account()).add(location)

    def _drop_cell(self, key: _Key) -> None:
        previous = self._borrowers.pop(key, None)
        if previous is None:
            return
        account = self._accounts[previous.account]
        account.remove(previous.location)
        if not account.locations:
            del self._accounts[previous.account]

    def _put_formation(self, body: Body) -> None:
        metadata = body["metadata"]
        key = (metadata.get("namespace") or "", metadata["name"])
        state = _state(metadata)
        previous = self._segments.get(key)
        if previous is not None and previous[0] == state:
            return
        try:
            segment = cell_identity.formation_segment(Formation.from_dict(body))
        except InvalidResource:
            self._segments.pop(key, None)
            return
        self._segments[key] = (state, segment)


def _state(metadata: Body) -> bytes:
    """Return a digest of what the location of an object depends on, smaller than its labels."""
    return memo.digest([metadata["uid"], metadata.get("generation"), metadata.get("labels")])


def _location(cell: Cell) -> _Location:
    """Return the location of a cell: its short name in its formation, otherwise its own name."""
    if cell.spec.formation_ref is None:
        return None, cell.metadata.name
    return cell.spec.formation_ref, cell_identity.segment(cell_identity.short_name(cell))


def _other_cells(cells: Counter[str], excluded: str | None) -> Iterator[str]:
    """Yield some different cells, without one occurrence of `excluded`."""
    cell_names = (cell for cell, count in cells.items() if count - (cell == excluded) > 0)
    return itertools.islice(cell_names, _MAX_CELLS_PER_SCOPE)
