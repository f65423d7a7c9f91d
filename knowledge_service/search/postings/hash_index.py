"""Which facts of a scope may say the same: the beginnings of their hashes, with their numbers.

Hashes come in no order, so a tree of them has another page to write for each new fact. Here they
lie in the order in which facts came, 64 to a block; who asks has those of a scope in memory, in
their own order. Eight bytes of a hash prove nothing: who finds a number compares the whole one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

BLOCK = 64
"""Entries to a block; arbitrary: five blocks to a page, of which a small write changes one."""

_ENTRY = np.dtype([("begin", "<u8"), ("number", "<u4")])
SIZE = _ENTRY.itemsize
"""Bytes of an entry."""

TOMBSTONE = 0
"""The beginning of an erased fact's hash: the entry keeps its place and its number."""

# What came last is kept apart, until it is so many or such a part of all. A scope that has no more
# is kept as if it came last: arrays cost more than they save.
_FEW, _PART = 32, 16

Entries = NDArray[np.void]
_NONE = np.empty(0, np.uint64), np.empty(0, np.uint32)


def beginnings(hashes: Sequence[bytes]) -> list[int]:
    """Return of each hash what is kept of it."""
    found: list[int] = np.frombuffer(b"".join([each[:8] for each in hashes]), "<u8").tolist()
    return found


def pack(begins: Sequence[int], numbers: Sequence[int]) -> bytes:
    """Pack entries."""
    found = np.empty(len(begins), _ENTRY)
    found["begin"], found["number"] = begins, numbers
    return found.tobytes()


def unpack(data: bytes) -> Entries:
    """Read entries back, those of one block or of several joined."""
    return np.frombuffer(data, _ENTRY)


def blocks(data: bytes) -> Iterator[bytes]:
    """Cut packed entries into blocks; the last one may be shorter."""
    return (data[at : at + BLOCK * SIZE] for at in range(0, len(data), BLOCK * SIZE))


def first_live(data: bytes) -> int | None:
    """Return the first number of a block that is no tombstone's."""
    entries = unpack(data)
    live = entries["number"][entries["begin"] != TOMBSTONE]
    return int(live[0]) if len(live) else None


def blank(data: bytes, begin: int, number: int) -> bytes | None:
    """Put a tombstone in the place of a block's entry; None when the block has no such entry."""
    entries = unpack(data).copy()
    (places,) = ((entries["begin"] == begin) & (entries["number"] == number)).nonzero()
    if not len(places):
        return None
    entries["begin"][places[0]] = TOMBSTONE
    return entries.tobytes()


class Known:
    """The entries of one scope, ready to be asked for."""

    def __init__(self, entries: Entries) -> None:
        few = len(entries) <= _FEW
        self._new_begins: list[int] = []
        self._new_numbers: list[int] = []
        self._new: dict[int, list[int]] = {}
        self._begins, self._numbers = _NONE
        if few:
            self.add(entries["begin"].tolist(), entries["number"].tolist())
        else:
            order = np.argsort(entries["begin"], kind="stable")
            self._begins, self._numbers = entries["begin"][order], entries["number"][order]

    def __len__(self) -> int:
        """Count the entries."""
        return len(self._begins) + len(self._new_begins)

    def among(self, begins: Sequence[int]) -> set[int]:
        """Return which of these there are."""
        found = self._new.keys() & begins
        if len(self._begins):
            asked = np.array(begins, np.uint64)
            at = self._begins.searchsorted(asked)
            at[at == len(self._begins)] = 0
            is_there = self._begins[at] == asked
            if is_there.any():
                found.update(asked[is_there].tolist())
        return found

    def numbers(self, begin: int) -> list[int]:
        """Return the numbers of the facts whose hashes begin so."""
        low, high = (
            self._begins.searchsorted(np.uint64(begin), side) for side in ("left", "right")
        )
        found: list[int] = self._numbers[low:high].tolist()
        return found + self._new.get(begin, [])

    def add(self, begins: Sequence[int], numbers: Sequence[int]) -> None:
        """Add entries."""
        for begin, number in zip(begins, numbers, strict=True):
            if begin in self._new:
                self._new[begin].append(number)
            else:
                self._new[begin] = [number]  # one that is appended to has room for four
        self._new_begins += begins
        self._new_numbers += numbers

    def take_back(self, count: int) -> None:
        """Take the last entries away that were added since `settle`."""
        for begin in self._new_begins[-count:]:
            numbers = self._new[begin]
            numbers.pop()
            if not numbers:
                del self._new[begin]
        del self._new_begins[-count:], self._new_numbers[-count:]

    def settle(self) -> None:
        """Put what was added to the rest, once it is worth it; it cannot be taken back any more."""
        if len(self._new_begins) < max(_FEW, len(self._begins) // _PART):
            return
        begins = np.array(self._new_begins, np.uint64)
        order = np.argsort(begins, kind="stable")
        begins, numbers = begins[order], np.array(self._new_numbers, np.uint32)[order]
        at = self._begins.searchsorted(begins, "right")
        self._begins = np.insert(self._begins, at, begins)
        self._numbers = np.insert(self._numbers, at, numbers)
        self._new, self._new_begins, self._new_numbers = {}, [], []
