"""The backfill of embeddings: stores the vector of every fact, oldest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from knowledge_service.workers.background import BackgroundWorker, OnRun, TaskFailed

if TYPE_CHECKING:
    from knowledge_service.ports.embeddings import Embedder, VectorStore

# Texts in one request, and the interval at which new facts are looked up.
_BATCH_SIZE = 64
_EVERY_S = 1.0
_RETRY_S = 30.0


class EmbeddingBackfill(BackgroundWorker):
    """Starts with facts that have no vector of this model yet; recall does not wait for it."""

    def __init__(
        self,
        store: VectorStore,
        embedder: Embedder,
        *,
        on_run: OnRun,
        every_s: float = _EVERY_S,
        retry_s: float = _RETRY_S,
    ) -> None:
        super().__init__("embeddings", {"embedding": self.step}, retry_s=retry_s, on_run=on_run)
        self._store = store
        self._embedder = embedder
        self._every_s = every_s
        self._after = 0

    def step(self) -> float:
        """Store the vectors of the next facts; return the seconds until the next step.

        Raises:
            TaskFailed: the endpoint returned no vectors.
        """
        model = self._embedder.model
        facts = self._store.facts_without_vector(model, self._after, _BATCH_SIZE)
        if not facts:
            return self._every_s
        vectors = self._embedder.embed([text for _, _, text in facts])
        if vectors is None:
            raise TaskFailed("the endpoint of embeddings gave no vectors")
        rows = [
            (number, scope_no, np.array(vector, dtype="<f4").tobytes())
            for (number, scope_no, _), vector in zip(facts, vectors, strict=True)
        ]
        self._store.keep_vectors(model, rows)
        self._after = facts[-1][0]
        return 0.0
