"""Has searches run by another process, so that they use a second core.

A search is two thirds of the processor time of a recall, and Python runs one thread at a time. So
the searches have an interpreter of their own; this one keeps HTTP, validation and writes. While
that process starts, or after it has failed, the service searches itself, with the same code.

The process has the cache of postings, so it must know of each erasure before that is committed. A
process that does not confirm one in time is killed, and the next one starts with an empty cache.
"""

from __future__ import annotations

import logging
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import msgspec

from knowledge_service import errors
from knowledge_service import process_messages as messages
from knowledge_service.ports import Search
from knowledge_service.search import ranker_version
from knowledge_service.search.pipeline import RankerConfig
from knowledge_service.search.postings.cache import ErasedDocuments
from knowledge_service.search_process import protocol
from knowledge_service.store.sqlite.repositories.recall_search import EncodedResult
from knowledge_service.store.sqlite.repositories.recall_snapshot import Vector

_log = logging.getLogger(__name__)
# As many as there are slots for recalls, and some for erasures that wait for snapshots.
_CONNECTIONS = 6
_START_S = 20.0
# The process confirms an erasure within a millisecond; the writer waits for it.
_CONFIRM_S = 2.0
# How much longer than a read the process may take to answer.
_GRACE_S = 2.0
# The time without a process after a failure.
_PAUSE_S = 30.0
_ERRORS_BY_NAME: dict[str, type[errors.StoreUnavailable]] = {
    kind.__name__: kind
    for kind in (errors.StoreUnavailable, errors.ReadTimeout, errors.StoreDamaged)
}


class _Running:
    """A process that is ready, and the connections to it."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self.process = process
        self.control = control
        self.connections: queue.LifoQueue[socket.socket] = queue.LifoQueue()

    def send_control(self, message: protocol.Control) -> None:
        """Send a message, and wait until it is confirmed.

        Raises:
            OSError: it is not confirmed in time.
        """
        messages.send(self.control, protocol.encode(message))
        messages.receive(self.control)

    def request(self, message: protocol.Request) -> bytes:
        """Send a request, and wait for the answer.

        Raises:
            OSError: there is none in time.
        """
        connection = self.connections.get()
        try:
            messages.send(connection, protocol.encode(message))
            return messages.receive(connection)
        except BaseException:
            # A late answer must not be read as that to the next request, of another reader.
            connection.close()
            raise
        finally:
            self.connections.put(connection)

    def close(self) -> None:
        """Close the connections once the process has ended; later requests fail."""
        connections = [self.connections.get() for _ in range(_CONNECTIONS)]
        for connection in connections:
            connection.close()
            self.connections.put(connection)
        self.control.close()


class SearchProcess:
    """Starts, uses and ends the process. Used by several threads."""

    def __init__(
        self,
        path: Path,
        config: RankerConfig,
        *,
        reads_within_s: float,
        on_ready: Callable[[], None] = lambda: None,
        pause_s: float = _PAUSE_S,
    ) -> None:
        self._path = path
        self._config = config
        self._reads_within_s = reads_within_s
        self._on_ready = on_ready
        self._pause_s = pause_s
        # For the erasure version and what is sent about it, in the order of the commits.
        self._lock = threading.Lock()
        self._erasure_version = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._running: _Running | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name="search-process", daemon=True)

    @property
    def process_id(self) -> int | None:
        """Return the id of the process; None while none is ready."""
        running = self._running
        return running.process.pid if running else None

    def start(self) -> None:
        """Start the process in the background; a failed one is started again after a pause."""
        self._thread.start()

    def stop(self) -> None:
        """End the process; it is not started again."""
        self._stopped.set()
        if self._process:
            self._process.kill()
        if self._thread.is_alive():
            self._thread.join()

    def search(self, search: Search, vector: Vector | None) -> EncodedResult | None:
        """Run a search; None when no process is ready, or when it fails.

        Raises:
            StoreUnavailable, ReadTimeout: as for a search in this process.
        """
        running = self._running
        if running is None:
            return None
        try:
            response = protocol.decode_response(
                running.request(protocol.SearchRequest(search, vector))
            )
        except (OSError, msgspec.DecodeError):
            self._end(running)
            return None
        if response.failure is None:
            return response.result
        kind = _ERRORS_BY_NAME.get(response.failure.kind)
        if kind is None:
            raise RuntimeError(f"the process of the searches failed: {response.failure.detail}")
        raise kind(response.failure.detail)

    def wait_for_open_snapshots(self) -> None:
        """Wait until no search reads a snapshot that is open now."""
        running = self._running
        if running is None:
            return
        try:
            if running.request(protocol.WaitForSnapshots()) != protocol.ACKNOWLEDGED:
                raise ConnectionError("the process of the searches did not acknowledge")
        except OSError:
            self._end(running)

    def set_erasure_version(self, version: int) -> None:
        """Have the process use no cache while the version is odd; return when it has agreed."""
        with self._lock:
            self._erasure_version = version
            self._notify(protocol.ErasureVersion(version))

    def record_erasure(self, version: int, erased: ErasedDocuments) -> None:
        """Have the process drop documents from its cache, before the version is set."""
        with self._lock:
            documents = protocol.documents_of(tuple(erased.items()))
            self._notify(protocol.Erased(version, documents))

    def _notify(self, message: protocol.Control) -> None:
        running = self._running
        if running is None:
            return
        try:
            running.send_control(message)
        except OSError:
            self._end(running)

    def _supervise(self) -> None:
        while not self._stopped.is_set():
            try:
                status = self._run()
            except Exception as exc:  # noqa: BLE001 - the next process may start
                failure = str(exc) or type(exc).__name__
            else:
                failure = f"it ended with {status}"
            if not self._stopped.is_set():
                fields = {"why": failure, "pause_s": self._pause_s}
                _log.warning("the service searches by itself", extra={"fields": fields})
                self._stopped.wait(self._pause_s)

    def _run(self) -> int:
        """Start a process, use it when it is ready, and return its status when it has ended.

        Raises:
            OSError: it is not ready in time, or has another version.
        """
        running, numbers = self._start_process()
        try:
            self._make_ready(running, numbers)
            return running.process.wait()
        finally:
            self._end(running)
            running.process.wait()
            running.close()

    def _start_process(self) -> tuple[_Running, list[int]]:
        """Start a process; return it with the file descriptors of its connections."""
        with ExitStack() as process_ends, ExitStack() as service_ends:
            pairs = [socket.socketpair() for _ in range(1 + _CONNECTIONS)]
            for service_end, process_end in pairs:
                service_ends.enter_context(service_end)
                process_ends.enter_context(process_end)
            (control, process_control), *others = pairs
            numbers = [process_end.fileno() for _, process_end in others]
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "knowledge_service.search_process"],
                stdin=process_control.fileno(), stdout=subprocess.DEVNULL, pass_fds=numbers,
            )  # fmt: skip
            service_ends.pop_all()
        self._process = process
        if self._stopped.is_set():
            process.kill()
        running = _Running(process, control)
        for connection, _ in others:
            connection.settimeout(self._reads_within_s + _GRACE_S)
            running.connections.put(connection)
        return running, numbers

    def _make_ready(self, running: _Running, numbers: list[int]) -> None:
        """Send the settings, and use the process when it has read them.

        Raises:
            OSError: it is not ready in time, or has another version.
        """
        settings = protocol.Settings(str(self._path), self._reads_within_s, self._config, numbers)
        running.control.settimeout(_START_S)
        messages.send(running.control, protocol.encode(settings))
        if messages.receive(running.control) != ranker_version.version_of(self._config).encode():
            raise OSError("it has another version of kais-knowledge; restart the service")
        running.control.settimeout(_CONFIRM_S)
        with self._lock:
            running.send_control(protocol.ErasureVersion(self._erasure_version))
            self._running = running
        self._on_ready()

    def _end(self, running: _Running) -> None:
        """Kill a process: it holds nothing that could be lost."""
        if self._running is running:
            self._running = None
        running.process.kill()
