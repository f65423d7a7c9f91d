"""The index form of a text. Without numpy, which the analysis worker would import for nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Document:
    """The index form of a text: its term numbers, ascending, with their frequencies.

    A document without terms keeps only its position.
    """

    number: int
    length: int
    terms: tuple[int, ...]
    frequencies: tuple[int, ...]
