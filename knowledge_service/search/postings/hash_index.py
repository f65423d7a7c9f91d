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
_MIN_RECENT, _RECENT_SHARE = 32, 16

Entries = NDArray[np.void]
_NO_ENTRIES = np.empty(0, np.uint64), np.empty(0, np.uint32)


def hash_prefixes(hashes: Sequence[bytes]) -> list[int]:
    """Return of each hash what is kept of it."""
    prefixes: list[int] = np.frombuffer(
        b"".join([content_hash[:8] for content_hash in hashes]), "<u8"
    ).tolist()
    return prefixes


def pack(prefixes: Sequence[int], numbers: Sequence[int]) -> bytes:
    """Pack entries."""
    entries = np.empty(len(prefixes), _ENTRY)
    entries["begin"], entries["number"] = prefixes, numbers
    return entries.tobytes()


def unpack(data: bytes) -> Entries:
    """Read entries back, those of one block or of several joined."""
    return np.frombuffer(data, _ENTRY)


def blocks(data: bytes) -> Iterator[bytes]:
    """Cut packed entries into blocks; the last one may be shorter."""
    return (data[offset : offset + BLOCK * SIZE] for offset in range(0, len(data), BLOCK * SIZE))


def first_live(data: bytes) -> int | None:
    """Return the first number of a block that is no tombstone's."""
    entries = unpack(data)
    live = entries["number"][entries["begin"] != TOMBSTONE]
    return int(live[0]) if len(live) else None


def erase_entry(data: bytes, prefix: int, number: int) -> bytes | None:
    """Put a tombstone in the place of a block's entry; None when the block has no such entry."""
    entries = unpack(data).copy()
    (positions,) = ((entries["begin"] == prefix) & (entries["number"] == number)).nonzero()
    if not len(positions):
        return None
    entries["begin"][positions[0]] = TOMBSTONE
    return entries.tobytes()


class PrefixSet:
    """The entries of one scope, ready to be asked for."""

    def __init__(self, entries: Entries) -> None:
        is_small = len(entries) <= _MIN_RECENT
        self._new_begins: list[int] = []
        self._new_numbers: list[int] = []
        self._new: dict[int, list[int]] = {}
        self._begins, self._numbers = _NO_ENTRIES
        if is_small:
            self.add(entries["begin"].tolist(), entries["number"].tolist())
        else:
            order = np.argsort(entries["begin"], kind="stable")
            self._begins, self._numbers = entries["begin"][order], entries["number"][order]

    def __len__(self) -> int:
        """Count the entries."""
        return len(self._begins) + len(self._new_begins)

    def intersection(self, prefixes: Sequence[int]) -> set[int]:
        """Return which of these there are."""
        matches = self._new.keys() & prefixes
        if len(self._begins):
            queried = np.array(prefixes, np.uint64)
            positions = self._begins.searchsorted(queried)
            positions[positions == len(self._begins)] = 0
            is_match = self._begins[positions] == queried
            if is_match.any():
                matches.update(queried[is_match].tolist())
        return matches

    def numbers(self, prefix: int) -> list[int]:
        """Return the numbers of the facts whose hashes begin so."""
        low, high = (
            self._begins.searchsorted(np.uint64(prefix), side) for side in ("left", "right")
        )
        numbers: list[int] = self._numbers[low:high].tolist()
        return numbers + self._new.get(prefix, [])

    def add(self, prefixes: Sequence[int], numbers: Sequence[int]) -> None:
        """Add entries."""
        for prefix, number in zip(prefixes, numbers, strict=True):
            if prefix in self._new:
                self._new[prefix].append(number)
            else:
                self._new[prefix] = [number]  # one that is appended to has room for four
        self._new_begins += prefixes
        self._new_numbers += numbers

    def undo_add(self, count: int) -> None:
        """Take the last entries away that were added since `settle`."""
        for prefix in self._new_begins[-count:]:
            numbers = self._new[prefix]
            numbers.pop()
            if not numbers:
                del self._new[prefix]
        del self._new_begins[-count:], self._new_numbers[-count:]

    def merge(self) -> None:
        """Put what was added to the rest, once it is worth it; it cannot be taken back any more."""
        if len(self._new_begins) < max(_MIN_RECENT, len(self._begins) // _RECENT_SHARE):
            return
        prefixes = np.array(self._new_begins, np.uint64)
        order = np.argsort(prefixes, kind="stable")
        prefixes, numbers = prefixes[order], np.array(self._new_numbers, np.uint32)[order]
        positions = self._begins.searchsorted(prefixes, "right")
        self._begins = np.insert(self._begins, positions, prefixes)
        self._numbers = np.insert(self._numbers, positions, numbers)
        self._new, self._new_begins, self._new_numbers = {}, [], []
