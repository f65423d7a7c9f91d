"""The worker of the durable job.

A thread that takes what is accepted and not finished, oldest first.

    accept (route, committed) -> wake -> gather -> extract (pure) -> facts and `done` in one commit

A process that dies anywhere leaves the job open; the next one takes it up at its start. The last
step is one transaction that looks at the state first, so every fact is stored once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from knowledge_service.errors import ServiceError, StoreUnavailable
from knowledge_service.extraction import job

if TYPE_CHECKING:
    from knowledge_client.models import Extraction
    from knowledge_service.domain.runs import RunKey
    from knowledge_service.ports import Store

_log = logging.getLogger(__name__)
_AT_ONCE = 50
# The rules are pure and the store is local: what fails three times fails for good.
_ATTEMPTS = 3


class Worker:
    """Runs extractions one after the other.

    `on_end` is called with the state of each that ended and the seconds of its last attempt.
    """

    def __init__(
        self,
        store: Store,
        on_end: Callable[[str, float], object] = lambda _, __: None,
        run: Callable[[Store, RunKey], Extraction] = job.run,
        *,
        retry_s: float = 1.0,
    ) -> None:
        self._store = store
        self._on_end = on_end
        self._run_job = run
        self._retry_s = retry_s
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._loop, name="extractor", daemon=True)

    def start(self) -> None:
        """Begin, with what an earlier process left."""
        self._wake.set()
        self._thread.start()

    def wake(self) -> None:
        """Look for jobs now."""
        self._wake.set()

    def stop(self) -> None:
        """Finish the job at hand and end."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def _loop(self) -> None:
        retry = False
        while not self._stopping:
            self._wake.wait(self._retry_s if retry else None)
            self._wake.clear()
            try:
                retry = self._drain()
            except StoreUnavailable as exc:
                _log.warning("extractions wait for the store", extra={"fields": {"why": str(exc)}})
                retry = True
            except Exception:  # noqa: BLE001 - the thread must not end unnoticed
                _log.exception("extraction failed; retrying in %g s", self._retry_s)
                retry = True

    def _drain(self) -> bool:
        """Run every open job once; tell whether any is still open."""
        jobs = self._store.open_extractions(_AT_ONCE)
        for key, extraction in jobs:
            if self._stopping:
                return False
            self._one(key, extraction)
        return bool(self._store.open_extractions(1))

    def _one(self, key: RunKey, extraction: Extraction) -> None:
        run_id, began_s = key.run_id, time.perf_counter()
        try:
            ended = self._run_job(self._store, key)
        except StoreUnavailable:
            raise
        except Exception as exc:  # noqa: BLE001 - one bad record must not stop the others
            retry = extraction.attempts + 1 < _ATTEMPTS
            reason = exc.detail if isinstance(exc, ServiceError) else f"{type(exc).__name__}: {exc}"
            ended = self._store.fail_extraction(key, reason, retry=retry)
            _log.warning("extraction failed", exc_info=exc, extra={"fields": {"run": run_id}})
        if ended.state in ("done", "failed"):
            self._on_end(ended.state, time.perf_counter() - began_s)
            fields = {"run": run_id, "state": ended.state, "facts": len(ended.facts)}
            _log.info("extraction ended", extra={"fields": fields})
