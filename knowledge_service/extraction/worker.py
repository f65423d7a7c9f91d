"""The background worker of extractions: it runs those accepted and unfinished, oldest first.

    accept (route, committed) -> wake -> gather -> extract (pure) -> facts and `done` in one commit

When the process dies, the job stays open, and the next process runs it at its start. The last step
is one transaction that checks the state first, so every fact is stored once. Extractions by a model
have a worker of their own, so that a slow model delays no others.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from knowledge_service import clock
from knowledge_service.errors import ServiceError, StoreUnavailable
from knowledge_service.extraction import job
from knowledge_service.workers.background import BackgroundWorker, OnRun

if TYPE_CHECKING:
    from knowledge_client.models import Extraction
    from knowledge_service.domain.run_reports import RunKey
    from knowledge_service.ports import ExtractionQueue, Store

_log = logging.getLogger(__name__)
# The rules are pure and the store is local: a third failure is permanent.
_MAX_ATTEMPTS = 3
# A call of a model may take minutes; one that is interrupted is repeated by the next process.
_STOP_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Queue:
    """The extractions that a worker runs.

    Attributes:
        name: those by rules, those by a model, or all.
        now: clock that decides which are due; None: all are.
        idle_s: seconds until an empty queue is read again; None: when the worker is woken.
        on_model_chosen: called when an extraction moves to the queue of models.
        batch_size: how many extractions are read at once.
    """

    name: ExtractionQueue = "all"
    now: clock.Clock | None = None
    idle_s: float | None = None
    on_model_chosen: Callable[[], None] = lambda: None
    batch_size: int = 50


class ExtractionWorker(BackgroundWorker):
    """Runs extractions one after the other, first those that an earlier process left open.

    `on_end` is called with the state of each that ended and the seconds of its last attempt.
    """

    def __init__(
        self,
        store: Store,
        *,
        on_run: OnRun,
        on_end: Callable[[str, float], object] = lambda _, __: None,
        run: Callable[[Store, RunKey], Extraction] = job.run_extraction,
        retry_s: float = 1.0,
        queue: Queue | None = None,
    ) -> None:
        self._queue = queue or Queue()
        name = "extraction" if self._queue.name != "model" else "model-extraction"
        super().__init__(
            name, {"extraction": self._drain}, retry_s=retry_s, on_run=on_run,
            stop_timeout_s=_STOP_TIMEOUT_S if self._queue.name == "model" else None,
        )  # fmt: skip
        self._store = store
        self._on_end = on_end
        self._run_job = run

    def _drain(self) -> float | None:
        """Run each open job once; return the seconds until the next time, if it is known."""
        silent_models: set[str | None] = set()
        for key, extraction in self._open(self._queue.batch_size):
            if self.is_stopping:
                return None
            if extraction.model in silent_models:
                continue
            result = self._run_extraction(key, extraction)
            if extraction.model and (result.state, result.model) == ("pending", extraction.model):
                # Each further call to it may take a minute, and delay other models.
                silent_models.add(extraction.model)
        rest = {entry.model for _, entry in self._open(self._queue.batch_size)} - silent_models
        return self._retry_s if rest else self._queue.idle_s

    def _open(self, limit: int) -> tuple[tuple[RunKey, Extraction], ...]:
        queue = self._queue
        due_at = queue.now() if queue.now else None
        return self._store.open_extractions(limit, queue=queue.name, due_at=due_at)

    def _run_extraction(self, key: RunKey, extraction: Extraction) -> Extraction:
        started_at_s = time.perf_counter()
        try:
            result = self._run_job(self._store, key)
        except StoreUnavailable:
            raise
        except Exception as exc:  # noqa: BLE001 - one bad record must not stop the others
            retry = extraction.attempts + 1 < _MAX_ATTEMPTS
            reason = exc.detail if isinstance(exc, ServiceError) else f"{type(exc).__name__}: {exc}"
            result = self._store.fail_extraction(key, reason, retry=retry)
            _log.warning("extraction failed", exc_info=exc, extra={"fields": job.run_fields(key)})
        if result.model and not extraction.model:
            self._queue.on_model_chosen()
        if result.state in ("done", "failed"):
            self._on_end(result.state, time.perf_counter() - started_at_s)
            fields = {
                **job.run_fields(key),
                "state": result.state,
                "facts": len(result.facts),
            }
            _log.info("extraction ended", extra={"fields": fields})
        return result
