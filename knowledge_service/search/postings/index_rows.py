"""The rows of the index that a read asks a snapshot for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol


class RowRange(NamedTuple):
    """The rows of one bucket of a scope whose segments begin in [`first`, `end`)."""

    scope_no: int
    bucket: int
    first: int
    end: int


Rows = Mapping[tuple[int, int], Sequence[tuple[int, bytes]]]
"""By scope and bucket, rows in ascending order, each with its first document."""


class Source(Protocol):
    """Where the rows of one snapshot are."""

    def counts(self, scope_nos: Sequence[int]) -> Mapping[int, int]:
        """Return how many documents scopes have; scopes without any may be missing."""
        ...

    def rows(self, ranges: Sequence[RowRange]) -> Rows:
        """Read the rows of some ranges, which do not overlap."""
        ...
