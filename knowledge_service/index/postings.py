"""Posting blocks: which facts hold a term, how often, and how long they are.

A block is three little-endian arrays one after the other: fact numbers (u4, ascending), frequencies
(u2), lengths (u4). The stores keep blocks clustered by (scope, term); what is not folded into a
block yet comes as tail rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# 4,096 postings are 40 KiB: a fold rewrites at most one such block a term, and a read concatenates
# few.
BLOCK_SIZE = 4096
_MAX_TF = 65_535


@dataclass(frozen=True)
class Postings:
    """The postings of one term in one scope or several; the arrays have one length."""

    facts: NDArray[np.int64]
    frequencies: NDArray[np.float64]
    lengths: NDArray[np.float64]


@dataclass(frozen=True)
class Block:
    """A part of one term's postings, as it was stored; views into its bytes, nothing copied."""

    facts: NDArray[np.integer[Any]]
    frequencies: NDArray[np.integer[Any]]
    lengths: NDArray[np.integer[Any]]


def pack(rows: Sequence[tuple[int, int, int]]) -> bytes:
    """Pack (fact number, frequency, length) rows, ascending by fact number, into one block."""
    facts, frequencies, lengths = zip(*rows, strict=True)
    return b"".join(
        (
            np.array(facts, dtype="<u4").tobytes(),
            np.minimum(np.array(frequencies), _MAX_TF).astype("<u2").tobytes(),
            np.array(lengths, dtype="<u4").tobytes(),
        )
    )


def unpack(n: int, data: bytes) -> Block:
    """Read a block of `n` postings."""
    return Block(
        np.frombuffer(data, dtype="<u4", count=n),
        np.frombuffer(data, dtype="<u2", count=n, offset=4 * n),
        np.frombuffer(data, dtype="<u4", count=n, offset=6 * n),
    )


def rows(n: int, data: bytes) -> list[tuple[int, int, int]]:
    """Read a block back as the rows it was packed from."""
    block = unpack(n, data)
    columns = (block.facts.tolist(), block.frequencies.tolist(), block.lengths.tolist())
    return list(zip(*columns, strict=True))


def from_rows(tail: Sequence[tuple[int, int, int]]) -> Block:
    """Take tail rows as they are."""
    table = np.array(tail, dtype=np.int64).reshape(-1, 3)
    return Block(table[:, 0], table[:, 1], table[:, 2])


def join(parts: Iterable[Block]) -> Postings:
    """Put the parts of one term together; no fact may be in two of them."""
    found = list(parts) or [from_rows(())]
    return Postings(
        np.concatenate([part.facts for part in found]).astype(np.int64),
        np.concatenate([part.frequencies for part in found]).astype(np.float64),
        np.concatenate([part.lengths for part in found]).astype(np.float64),
    )
