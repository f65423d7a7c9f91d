"""Runs: documents of a scope with their postings as arrays, made, joined and parted. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

MAX_LENGTH = 65_535
"""A longer document counts as one of so many terms."""
MAX_FREQUENCY = 255
"""A term that comes more often in a document counts so often."""
TOMBSTONE = 0
"""The number at the place of an erased document: no fact has it. It has no terms and no length."""


@dataclass(frozen=True)
class Document:
    """What the index keeps of a text: its terms by number, ascending, with their frequencies.

    A document without terms keeps its place and nothing else.
    """

    number: int
    length: int
    terms: tuple[int, ...]
    frequencies: tuple[int, ...]


@dataclass(frozen=True)
class Run:
    """Documents with their postings, one entry a (term, document), ordered by term, then place.

    `places` count from the run's first document.
    """

    numbers: NDArray[np.uint32]
    lengths: NDArray[np.uint16]
    terms: NDArray[np.int64]
    places: NDArray[np.int64]
    frequencies: NDArray[np.uint8]


def gather(documents: Sequence[Document]) -> Run:
    """Make a run of new documents."""
    counts = [len(document.terms) for document in documents]
    total = sum(counts)
    terms = np.fromiter(chain.from_iterable([d.terms for d in documents]), np.int64, total)
    each = chain.from_iterable([d.frequencies for d in documents])
    frequencies = np.fromiter(each, np.int64, total)
    return _ordered(
        Run(
            np.array([d.number for d in documents], dtype=np.uint32),
            np.array([min(d.length, MAX_LENGTH) for d in documents], dtype=np.uint16),
            terms,
            np.repeat(np.arange(len(documents)), counts),
            np.minimum(frequencies, MAX_FREQUENCY).astype(np.uint8),
        )
    )


def gather_packed(numbers: Sequence[int], packed: Sequence[bytes]) -> Run:
    """Make a run of new documents from their numbers and those of their terms.

    What is packed is one term after the other in any order, as often as it comes, 8 bytes each.
    """
    lengths = np.array([len(each) for each in packed], dtype=np.int64) >> 3
    every = np.frombuffer(b"".join(packed), "<i8")
    order = np.argsort(every, kind="stable")
    terms, places = every[order], np.repeat(np.arange(len(packed)), lengths)[order]
    is_first = np.ones(len(terms), dtype=bool)
    is_first[1:] = (terms[1:] != terms[:-1]) | (places[1:] != places[:-1])
    firsts = np.flatnonzero(is_first)
    frequencies = distances(firsts, len(terms))
    return Run(
        np.array(numbers, dtype=np.uint32),
        np.minimum(lengths, MAX_LENGTH).astype(np.uint16),
        terms[firsts],
        places[firsts],
        np.minimum(frequencies, MAX_FREQUENCY).astype(np.uint8),
    )


def join(runs: Sequence[Run]) -> Run:
    """Put runs one after the other."""
    firsts = np.cumsum([0, *(len(run.numbers) for run in runs[:-1])])
    return _ordered(
        Run(
            np.concatenate([run.numbers for run in runs]),
            np.concatenate([run.lengths for run in runs]),
            np.concatenate([run.terms for run in runs]),
            np.concatenate([r.places + first for r, first in zip(runs, firsts, strict=True)]),
            np.concatenate([run.frequencies for run in runs]),
        )
    )


def blank(run: Run, place: int) -> Run:
    """Put a tombstone in the place of a document; the others stay where they are."""
    chosen = run.places != place
    numbers, lengths = run.numbers.copy(), run.lengths.copy()
    numbers[place : place + 1], lengths[place : place + 1] = TOMBSTONE, 0
    columns = (run.terms[chosen], run.places[chosen], run.frequencies[chosen])
    return Run(numbers, lengths, *columns)


def part(run: Run, start: int, size: int) -> Run:
    """Take so many documents out of a run, from the place `start` on."""
    if size == len(run.numbers):
        return run
    chosen = (run.places >= start) & (run.places < start + size)
    end = start + size
    columns = (run.terms[chosen], run.places[chosen] - start, run.frequencies[chosen])
    return Run(run.numbers[start:end], run.lengths[start:end], *columns)


def distances(starts: NDArray[np.intp], end: int) -> NDArray[np.intp]:
    """Return how far it is from each start to the next; as `diff`, at a third of its cost."""
    ends = np.empty_like(starts)
    ends[:-1] = starts[1:]
    ends[-1:] = end
    return ends - starts


def _ordered(run: Run) -> Run:
    order = np.argsort(run.terms, kind="stable")
    columns = (run.terms[order], run.places[order], run.frequencies[order])
    return Run(run.numbers, run.lengths, *columns)
