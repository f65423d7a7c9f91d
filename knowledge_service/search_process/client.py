"""Has searches run by another process, so that they use a second core.

A search is two thirds of the processor time of a recall, and Python runs one thread at a time. So
the searches have an interpreter of their own; this one keeps HTTP, validation and writes. While
that process starts, or after it has failed, the service searches itself, with the same code and
what is left of the time of the read.

The process has the cache of postings, so it must know of each erasure before that is committed. A
process that does not confirm one in time is killed, and the next one starts with an empty cache. So
is one that answers no ping, but not one that is only late: a search has a deadline in both.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from knowledge_service import errors
from knowledge_service.open_reads import OpenSearches
from knowledge_service.ports import Search
from knowledge_service.search.pipeline import RankerConfig
from knowledge_service.search.postings.cache import ErasedDocuments
from knowledge_service.search_process import failures, protocol, running_process
from knowledge_service.search_process.failures import ProcessFailure, Reason
from knowledge_service.search_process.running_process import RunningProcess
from knowledge_service.store.sqlite.repositories.recall_search import EncodedResult
from knowledge_service.store.sqlite.repositories.recall_snapshot import Vector

_log = logging.getLogger(__name__)
# Nobody waits for the start, and a busy node may take long for a second of work.
_START_S = 60.0
# The process confirms an erasure within a millisecond; the writer waits for it.
_CONFIRM_S = 2.0
# How much longer than until the deadline of a search the service waits for a response. The process
# answers at the deadline that the search is late.
_GRACE_S = 1.0
# How often the supervisor looks for searches that wait, and how long a ping may take.
_CHECK_S = 1.0
_PING_S = 2.0
# The time without a process after a failure.
_PAUSE_S = 30.0
# How long the end of the service waits for the supervisor.
_STOP_S = 5.0
_ERRORS_BY_NAME: dict[str, type[errors.StoreUnavailable]] = {
    kind.__name__: kind
    for kind in (errors.StoreUnavailable, errors.ReadTimeout, errors.StoreDamaged)
}


class SearchProcess:
    """Starts, uses and ends the process. Used by several threads."""

    def __init__(
        self,
        path: Path,
        config: RankerConfig,
        *,
        reads_within_s: float,
        on_ready: Callable[[], None] = lambda: None,
        on_failure: Callable[[Reason], None] = lambda _: None,
        pause_s: float = _PAUSE_S,
    ) -> None:
        self._path = path
        self._config = config
        self._reads_within_s = reads_within_s
        self._on_ready = on_ready
        self._on_failure = on_failure
        self._pause_s = pause_s
        # For the erasure version and what is sent about it, in the order of the commits.
        self._lock = threading.Lock()
        self._erasure_version = 0
        self._confirm_s = _CONFIRM_S
        self._started: RunningProcess | None = None
        self._ready: RunningProcess | None = None
        self._open_searches = OpenSearches()
        self._has_failed = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name="search-process", daemon=True)

    @property
    def process_id(self) -> int | None:
        """Return the id of the process; None while none is ready."""
        ready = self._ready
        return ready.process_id if ready else None

    def start(self) -> None:
        """Start the process in the background; a failed one is started again after a pause."""
        self._thread.start()

    def stop(self) -> None:
        """End the process; it is not started again."""
        self._stopped.set()
        started = self._started
        if started:
            self._end(started, None)
        if self._thread.is_alive():
            self._thread.join(_STOP_S)

    def search(
        self, search: Search, vector: Vector | None, *, ends_at_s: float
    ) -> EncodedResult | None:
        """Run a search; None when no process is ready, or when it fails.

        Raises:
            StoreUnavailable, ReadTimeout: as for a search in this process.
        """
        ready = self._ready
        if ready is None:
            return None
        number = self._open_searches.begin()
        try:
            response = self._request(
                ready, protocol.SearchRequest(number, search, vector, ends_at_s)
            )
        finally:
            self._open_searches.end(number)
        if response is None:
            return None
        if response.failure is None:
            return response.result
        kind = _ERRORS_BY_NAME.get(response.failure.kind)
        if kind is None:
            raise RuntimeError(f"the process of the searches failed: {response.failure.detail}")
        raise kind(response.failure.detail)

    def _request(
        self, ready: RunningProcess, request: protocol.SearchRequest
    ) -> protocol.SearchResponse | None:
        """Send a request; None when the process fails.

        Raises:
            StoreUnavailable: there is no response in time.
        """
        begin_s = time.monotonic()
        try:
            return ready.request(request, request.ends_at_s + _GRACE_S)
        except TimeoutError as exc:
            if ready.last_response_s < begin_s:
                self._end(ready, failures.stalled(request.number, time.monotonic() - begin_s))
            raise errors.StoreUnavailable(
                f"the search process was late for a read of {self._reads_within_s:g} s; try again"
            ) from exc
        except OSError as exc:
            # Its exit status says more, if it has ended.
            self._withdraw(ready)
            if ready.wait() is None:
                self._end(ready, failures.protocol_error(request.number, exc))
        except msgspec.DecodeError as exc:
            self._end(ready, failures.protocol_error(request.number, exc))
        return None

    def wait_for_open_searches(self, erased_at_s: float) -> None:
        """Wait until all searches that began before an erasure have returned their results."""
        self._open_searches.wait(erased_at_s, erased_at_s + self._reads_within_s + 2 * _GRACE_S)

    def set_erasure_version(self, version: int) -> None:
        """Have the process use no cache while the version is odd; return when it has agreed."""
        with self._lock:
            self._erasure_version = version
            if version % 2:
                self._confirm_s = _CONFIRM_S
            self._notify(protocol.ErasureVersion(version))

    def record_erasure(self, version: int, erased: ErasedDocuments) -> None:
        """Have the process drop documents from its cache, before the version is set."""
        with self._lock:
            documents = protocol.documents_of(tuple(erased.items()))
            self._notify(protocol.Erased(version, documents))

    def _notify(self, message: protocol.Control) -> None:
        """Send a message and wait until it is confirmed; end a process that takes too long.

        All messages of one erasure together may take `_CONFIRM_S`.
        """
        ready = self._ready
        if ready is None:
            return
        begin_s = time.monotonic()
        try:
            _confirm(ready, message, begin_s + self._confirm_s)
        except TimeoutError:
            self._end(ready, failures.erasure_timeout(self._erasure_version, _CONFIRM_S))
        except OSError:
            self._withdraw(ready)
        self._confirm_s -= time.monotonic() - begin_s

    def _supervise(self) -> None:
        while not self._stopped.is_set():
            try:
                failure, stderr = self._run()
            except Exception as exc:  # noqa: BLE001 - the next process may start
                failure, stderr = failures.unexpected(exc), ""
            if not self._stopped.is_set():
                self._on_failure(failure.reason)
                self._has_failed = True
                fields = {
                    "why": failure.message,
                    "reason": failure.reason,
                    "pause_s": self._pause_s,
                }
                if stderr:
                    fields["stderr"] = stderr
                _log.warning("the service searches by itself", extra={"fields": fields})
                self._stopped.wait(self._pause_s)

    def _run(self) -> tuple[ProcessFailure, str]:
        """Start a process, and use it when it is ready; return why it ended, and its errors."""
        try:
            process, numbers = running_process.start()
        except OSError as exc:
            return failures.of_start(exc), ""
        self._started = process
        was_ready = False
        try:
            if not self._stopped.is_set():
                was_ready = self._make_ready(process, numbers)
            if was_ready:
                self._watch(process)
            status = process.wait()
            if status is None:
                self._end(process, failures.of_exit(None, "", was_ready=was_ready))
                status = process.wait()
            stderr = process.stderr()
            exit_failure = failures.of_exit(status, stderr, was_ready=was_ready)
            return process.failure or exit_failure, stderr
        finally:
            self._started = None
            self._end(process, None)
            process.wait()
            with self._lock:
                process.close()

    def _make_ready(self, process: RunningProcess, numbers: list[int]) -> bool:
        """Send the settings, and use the process when it has read them; return whether it is so."""
        health, overdue, *connections = numbers
        settings = protocol.Settings(
            str(self._path), self._reads_within_s, self._config, health, overdue, connections
        )
        ends_at_s = time.monotonic() + _START_S
        try:
            process.control.send(protocol.encode(settings), ends_at_s)
            version = bytes(process.control.receive(ends_at_s))
            if version != protocol.version(self._config):
                self._end(process, failures.other_version())
                return False
            if not self._publish(process, ends_at_s):
                return False
        except TimeoutError:
            self._end(process, failures.not_ready(_START_S))
            return False
        except OSError:  # its exit status says more
            return False
        if self._has_failed:
            self._has_failed = False
            _log.info("the search process searches again")
        self._on_ready()
        return True

    def _publish(self, process: RunningProcess, ends_at_s: float) -> bool:
        """Use the process once it knows the current version; the writer does not wait for that.

        Raises:
            OSError: the process does not confirm the version in time.
        """
        confirmed = -1
        while not self._stopped.is_set():
            with self._lock:
                version = self._erasure_version
                if version == confirmed:
                    self._ready = process
                    return True
            _confirm(process, protocol.ErasureVersion(version), ends_at_s)
            confirmed = version
        return False

    def _watch(self, process: RunningProcess) -> None:
        """Return when the process has ended, or must end."""
        while not process.has_ended(_CHECK_S):
            oldest = self._open_searches.oldest()
            if oldest is None or time.monotonic() - oldest[1] < _CHECK_S:
                continue
            try:
                is_alive = process.ping(_PING_S)
            except OSError:
                return
            if not is_alive:
                waited_s = time.monotonic() - oldest[1]
                self._end(process, failures.unresponsive(oldest[0], waited_s, _PING_S))

    def _end(self, process: RunningProcess, failure: ProcessFailure | None) -> None:
        self._withdraw(process)
        process.end(failure)

    def _withdraw(self, process: RunningProcess) -> None:
        """Send no more searches to a process."""
        if self._ready is process:
            self._ready = None


def _confirm(process: RunningProcess, message: protocol.Control, ends_at_s: float) -> None:
    """Send a message, and wait until it is confirmed.

    Raises:
        TimeoutError: it is not confirmed in time.
        OSError: the process has ended.
    """
    process.control.send(protocol.encode(message), ends_at_s)
    process.control.receive(ends_at_s)
