"""Which cells borrow which ServiceAccount, and the scopes in which they are.

Cells that share an account are at home in their nearest common scope, so every look at one of them
asks for the others. A thousand cells are answered as fast as two: cells are counted by formation
and place, and equal ones are counted once.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kais.errors import InvalidResource
from kais.resources.cell import Cell
from kais.resources.formation import Formation
from kais.scopes import Scope
from kais_operator.controllers.cell.decide import cell_identity
from kais_operator.planning.plan import Body

_ENOUGH = 2
"""Two that differ have the nearest common scope of any number in the same place."""
_Key = tuple[str, str]  # namespace and name
_Place = tuple[str | None, str]  # formationRef and the cell's name in its scope


@dataclass
class _Account:
    """The cells that borrow one account: how many are at each place, by formation."""

    places: dict[str | None, Counter[str]] = field(default_factory=dict)

    def add(self, place: _Place) -> None:
        formation, cell = place
        self.places.setdefault(formation, Counter())[cell] += 1

    def remove(self, place: _Place) -> None:
        formation, cell = place
        cells = self.places[formation]
        cells[cell] -= 1
        if not cells[cell]:
            del cells[cell]
        if not cells:
            del self.places[formation]


@dataclass(frozen=True)
class _Borrower:
    """A cell as it was counted, and the state of it that this stands on."""

    account: _Key
    place: _Place
    state: Any


class AccountIndex:
    """Fed with every Cell and Formation as they come and go."""

    def __init__(self) -> None:
        self._borrowers: dict[_Key, _Borrower] = {}
        self._accounts: dict[_Key, _Account] = {}
        self._segments: dict[_Key, tuple[Any, str]] = {}

    def put(self, body: Body) -> None:
        """Take in a state of an object; of other kinds nothing is kept."""
        if body["kind"] == "Cell":
            self._put_cell(body)
        elif body["kind"] == "Formation":
            self._put_formation(body)

    def drop(self, kind: str, namespace: str, name: str) -> None:
        """Take in that an object is gone."""
        if kind == "Cell":
            self._drop_cell((namespace, name))
        elif kind == "Formation":
            self._segments.pop((namespace, name), None)

    def scopes(self, namespace: str, account: str, *, besides: str) -> list[Scope]:
        """Give scopes of the cells that borrow an account, without the one called `besides`.

        At most four are given, two in each of two formation scopes: the nearest common scope of
        these is that of all.
        """
        found = self._accounts.get((namespace, account))
        if found is None:
            return []
        own = self._borrowers.get((namespace, besides))
        place = own.place if own is not None and own.account == (namespace, account) else None
        by_segment: dict[str | None, set[str]] = {}
        for formation, cells in found.places.items():
            segment = None if formation is None else self._segment(namespace, formation)
            names = by_segment.setdefault(segment, set())
            if len(names) < _ENOUGH:
                without = place[1] if place is not None and place[0] == formation else None
                names.update(_others(cells, without))
            if len([one for one in by_segment.values() if one]) == _ENOUGH:
                break
        return [
            Scope(namespace, segment, name)
            for segment, names in by_segment.items()
            for name in sorted(names)[:_ENOUGH]
        ]

    def _segment(self, namespace: str, formation: str) -> str:
        _, segment = self._segments.get((namespace, formation), (None, None))
        return segment or cell_identity.segment(formation)

    def _put_cell(self, body: Body) -> None:
        metadata = body["metadata"]
        key = (metadata.get("namespace") or "", metadata["name"])
        account = (body.get("spec") or {}).get("serviceAccountName")
        known = self._borrowers.get(key)
        if account is None or metadata.get("deletionTimestamp"):
            self._drop_cell(key)
            return
        state = (metadata["uid"], metadata.get("generation"), metadata.get("labels"))
        if known is not None and known.state == state:
            return
        self._drop_cell(key)
        try:
            cell = Cell.from_dict(body)
        except InvalidResource:
            return
        place = _place(cell)
        self._borrowers[key] = _Borrower((key[0], account), place, state)
        self._accounts.setdefault((key[0], account), _Account()).add(place)

    def _drop_cell(self, key: _Key) -> None:
        known = self._borrowers.pop(key, None)
        if known is None:
            return
        account = self._accounts[known.account]
        account.remove(known.place)
        if not account.places:
            del self._accounts[known.account]

    def _put_formation(self, body: Body) -> None:
        metadata = body["metadata"]
        key = (metadata.get("namespace") or "", metadata["name"])
        state = (metadata["uid"], metadata.get("generation"), metadata.get("labels"))
        known = self._segments.get(key)
        if known is not None and known[0] == state:
            return
        try:
            segment = cell_identity.formation_segment(Formation.from_dict(body))
        except InvalidResource:
            self._segments.pop(key, None)
            return
        self._segments[key] = (state, segment)


def _place(cell: Cell) -> _Place:
    """Say where a cell is: in its formation by its short name, or alone by its own."""
    if cell.spec.formation_ref is None:
        return None, cell.metadata.name
    return cell.spec.formation_ref, cell_identity.segment(cell_identity.short_name(cell))


def _others(cells: Counter[str], without: str | None) -> Iterator[str]:
    """Name some different places; `without` is one cell's, which does not count itself."""
    others = (cell for cell, count in cells.items() if count - (cell == without) > 0)
    return itertools.islice(others, _ENOUGH)
