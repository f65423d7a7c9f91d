"""An index of content hashes that finds facts of a scope which may be equal.

Hashes have no order, so a tree of them would write another page for each new fact. Here the entries
are stored in the order in which the facts were added, 64 to a block. A reader loads those of a
scope into memory and sorts them by hash. An entry has eight bytes of a hash, which prove nothing:
compare the whole hash of each fact found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

BLOCK = 64
"""Entries in a block; arbitrary: a page holds five blocks, and a small write changes one."""

_ENTRY = np.dtype([("begin", "<u8"), ("number", "<u4")])
SIZE = _ENTRY.itemsize
"""Size of an entry in bytes."""

TOMBSTONE = 0
"""The prefix of an erased fact's hash; the entry keeps its position and its number."""

# Recent entries are held outside the sorted arrays until they reach this number and this share of
# all entries. A scope with fewer entries has no arrays, because they would cost more than they
# save.
_MIN_RECENT, _RECENT_SHARE = 32, 16

Entries = NDArray[np.void]
_NO_ENTRIES = np.empty(0, np.uint64), np.empty(0, np.uint32)


def hash_prefixes(hashes: Sequence[bytes]) -> list[int]:
    """Return the prefix of each hash that the index stores."""
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
    """Unpack the entries of one block or of several joined blocks."""
    return np.frombuffer(data, _ENTRY)


def blocks(data: bytes) -> Iterator[bytes]:
    """Split packed entries into blocks; the last one may be shorter."""
    return (data[offset : offset + BLOCK * SIZE] for offset in range(0, len(data), BLOCK * SIZE))


def first_live(data: bytes) -> int | None:
    """Return the first number of a block that is not a tombstone's; None if there is none."""
    entries = unpack(data)
    live = entries["number"][entries["begin"] != TOMBSTONE]
    return int(live[0]) if len(live) else None


def erase_entry(data: bytes, prefix: int, number: int) -> bytes | None:
    """Replace an entry of a block with a tombstone; return None if the block has no such entry."""
    entries = unpack(data).copy()
    (positions,) = ((entries["begin"] == prefix) & (entries["number"] == number)).nonzero()
    if not len(positions):
        return None
    entries["begin"][positions[0]] = TOMBSTONE
    return entries.tobytes()


class PrefixSet:
    """The entries of one scope, ready for lookups."""

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
        """Return the prefixes that the set contains."""
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
        """Return the numbers of the facts whose hashes begin with the prefix."""
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
                self._new[prefix] = [number]  # append() would reserve room for four
        self._new_begins += prefixes
        self._new_numbers += numbers

    def undo_add(self, count: int) -> None:
        """Remove the last `count` entries that were added since the last `merge`."""
        for prefix in self._new_begins[-count:]:
            numbers = self._new[prefix]
            numbers.pop()
            if not numbers:
                del self._new[prefix]
        del self._new_begins[-count:], self._new_numbers[-count:]

    def merge(self) -> None:
        """Merge recent entries into the sorted arrays once there are enough of them.

        Merged entries can no longer be removed by `undo_add`.
        """
        if len(self._new_begins) < max(_MIN_RECENT, len(self._begins) // _RECENT_SHARE):
            return
        prefixes = np.array(self._new_begins, np.uint64)
        order = np.argsort(prefixes, kind="stable")
        prefixes, numbers = prefixes[order], np.array(self._new_numbers, np.uint32)[order]
        positions = self._begins.searchsorted(prefixes, "right")
        self._begins = np.insert(self._begins, positions, prefixes)
        self._numbers = np.insert(self._numbers, positions, numbers)
        self._new, self._new_begins, self._new_numbers = {}, [], []
