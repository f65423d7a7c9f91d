"""Ports for embeddings, which need a configured endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class EmbeddingFailed(Exception):
    """The endpoint gave no vectors.

    With `may_be_the_texts`, fewer or other texts may succeed.
    """

    def __init__(self, why: str, *, may_be_the_texts: bool) -> None:
        super().__init__(why)
        self.may_be_the_texts = may_be_the_texts


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

    def embed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text; may take long, and has no effect on `embed`.

        Raises:
            EmbeddingFailed: the endpoint fails, or its response is invalid.
        """
        ...


class UnembeddedFact(NamedTuple):
    """A fact without a vector."""

    fact_id: str
    text: str


class FactPosition(NamedTuple):
    """The last fact that was looked at; once it is erased, its number may be another's."""

    number: int
    fact_id: str


class VectorStore(Protocol):
    """Stores the vectors of facts."""

    def facts_without_vector(
        self, model: str, after: FactPosition | None, limit: int
    ) -> tuple[list[UnembeddedFact], FactPosition | None]:
        """Return at most `limit` facts by number, and the position for the next call.

        Starts over if the fact at `after` is gone: later facts may have its number and lower ones.
        """
        ...

    def keep_vectors(self, model: str, vectors: Sequence[tuple[str, bytes]]) -> None:
        """Store (fact id, vector) rows; vectors are float32, little-endian."""
        ...
