"""The backfill of embeddings: stores the vector of every fact, oldest first.

A batch that the endpoint refuses is sent again by halves, down to the fact that it cannot embed.
Such a fact is skipped, and the others get their vectors.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from knowledge_service.ports.embeddings import EmbeddingFailed, FactPosition, UnembeddedFact
from knowledge_service.workers.background import BackgroundWorker, OnRun, TaskFailed

if TYPE_CHECKING:
    from knowledge_service.ports.embeddings import Embedder, VectorStore

_log = logging.getLogger(__name__)
# Texts in one request, and the interval at which new facts are looked up.
_BATCH_SIZE = 64
_EVERY_S = 1.0
_RETRY_S = 30.0
# A batch that was halved grows again after this many requests; arbitrary.
_GROWS_AFTER = 16
# Tells a text that the endpoint cannot embed from an endpoint that fails.
_OTHER_TEXT = "text"


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
        self._after: FactPosition | None = None
        self._size = _BATCH_SIZE
        self._successes = 0
        self._suspect: str | None = None
        self._skipped: set[str] = set()

    def step(self) -> float:
        """Store the vectors of the next facts; return the seconds until the next step.

        Raises:
            TaskFailed: the endpoint fails, whatever the texts are.
        """
        model = self._embedder.model
        found, after = self._store.facts_without_vector(model, self._after, self._size)
        facts = [fact for fact in found if fact.fact_id not in self._skipped]
        if facts:
            try:
                vectors = self._embedder.embed_batch([fact.text for fact in facts])
            except EmbeddingFailed as exc:
                self._narrow(facts, exc)
                return 0.0
            rows = [
                (fact.fact_id, np.array(vector, dtype="<f4").tobytes())
                for fact, vector in zip(facts, vectors, strict=True)
            ]
            self._store.keep_vectors(model, rows)
            self._grow()
        self._after = after
        return 0.0 if found else self._every_s

    def _narrow(self, facts: Sequence[UnembeddedFact], failure: EmbeddingFailed) -> None:
        """Have the next step send half as many facts, or skip the only one.

        A fact is skipped when it fails twice, while the endpoint embeds another text.

        Raises:
            TaskFailed: the failure is not about the facts.
        """
        if not failure.may_be_the_texts:
            raise _task_failed(failure) from failure
        self._successes = 0
        if len(facts) > 1:
            self._size = len(facts) // 2
            return
        try:
            self._embedder.embed_batch([_OTHER_TEXT])
        except EmbeddingFailed as exc:
            raise _task_failed(exc) from exc
        fact_id = facts[0].fact_id
        if fact_id == self._suspect:
            self._skipped.add(fact_id)
            fields = {"fields": {"fact": fact_id, "why": str(failure)}}
            _log.warning("a fact gets no vector: the endpoint cannot embed it", extra=fields)
        self._suspect = fact_id

    def _grow(self) -> None:
        self._successes += 1
        if self._successes >= _GROWS_AFTER and self._size < _BATCH_SIZE:
            self._size = min(2 * self._size, _BATCH_SIZE)
            self._successes = 0


def _task_failed(failure: EmbeddingFailed) -> TaskFailed:
    return TaskFailed(f"the endpoint of embeddings gave no vectors: {failure}")
