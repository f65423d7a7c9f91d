"""A thread that gives every fact its vector, oldest first; recall does not wait for it."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import numpy as np

from knowledge_service.errors import StoreUnavailable

if TYPE_CHECKING:
    from knowledge_service.ports.meaning import Embedder, VectorStore

_log = logging.getLogger(__name__)
# One request holds so many texts; new facts are looked for this often.
_AT_ONCE = 64
_LOOK_S = 1.0
_RETRY_S = 30.0


class Filler:
    """Runs until it is stopped."""

    def __init__(self, store: VectorStore, embedder: Embedder, look_s: float = _LOOK_S) -> None:
        self._store = store
        self._embedder = embedder
        self._look_s = look_s
        self._after = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="embeddings", daemon=True)

    def start(self) -> None:
        """Begin with the facts that have no vector of this model yet."""
        self._thread.start()

    def stop(self) -> None:
        """Finish what is at hand and end."""
        self._stop.set()
        self._thread.join()

    def step(self) -> float:
        """Give the next facts their vectors; return after how many seconds to look again."""
        model = self._embedder.model
        facts = self._store.facts_without_vector(model, self._after, _AT_ONCE)
        if not facts:
            return self._look_s
        vectors = self._embedder.embed([text for _, _, text in facts])
        if vectors is None:
            return _RETRY_S
        rows = [
            (number, scope_no, np.array(vector, dtype="<f4").tobytes())
            for (number, scope_no, _), vector in zip(facts, vectors, strict=True)
        ]
        self._store.keep_vectors(model, rows)
        self._after = facts[-1][0]
        return 0.0

    def _loop(self) -> None:
        wait = 0.0
        while not self._stop.wait(wait):
            try:
                wait = self.step()
            except StoreUnavailable as exc:
                _log.warning("no vectors are kept now", extra={"fields": {"why": exc.detail}})
                wait = _RETRY_S
            except Exception:  # noqa: BLE001 - the thread must not end unnoticed
                _log.exception("embedding failed; retrying in %g s", _RETRY_S)
                wait = _RETRY_S
