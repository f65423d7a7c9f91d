"""Ports for embeddings, which need a configured endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Embedder(Protocol):
    """An embedding model behind an endpoint.

    Vectors are comparable only with vectors of the same `model`.
    """

    @property
    def model(self) -> str:
        """Return the model's name."""
        ...

    def embed(self, texts: Sequence[str]) -> list[list[float]] | None:
        """Return a vector for each text; None if the endpoint fails or its response is invalid."""
        ...


class VectorStore(Protocol):
    """Stores the vectors of facts."""

    def facts_without_vector(
        self, model: str, after_number: int, limit: int
    ) -> list[tuple[int, int, str]]:
        """Return (fact number, scope number, text) of facts without a vector, by number.

        Only facts with a number above `after_number` are returned, at most `limit`.
        """
        ...

    def keep_vectors(self, model: str, vectors: Sequence[tuple[int, int, bytes]]) -> None:
        """Store (fact number, scope number, vector) rows; vectors are float32, little-endian."""
        ...
