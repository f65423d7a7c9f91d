"""Text to vectors, when an endpoint for that is configured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Embedder(Protocol):
    """A model behind an endpoint. `model` names it: vectors of another one do not compare."""

    @property
    def model(self) -> str:
        """Return the model's name."""
        ...

    def embed(self, texts: Sequence[str]) -> list[list[float]] | None:
        """Return a vector for each text; None when the endpoint does not answer as it should."""
        ...


class VectorStore(Protocol):
    """Keeps the vectors of facts beside them."""

    def facts_without_vector(
        self, model: str, after_number: int, limit: int
    ) -> list[tuple[int, int, str]]:
        """Return (fact number, scope number, text) of facts after a number, in order."""
        ...

    def keep_vectors(self, model: str, vectors: Sequence[tuple[int, int, bytes]]) -> None:
        """Keep (fact number, scope number, vector) rows; vectors are float32, little-endian."""
        ...
