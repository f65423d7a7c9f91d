"""Has large batches analysed by a worker process during an import, to use a second core.

The worker starts when two large batches arrive within a short time, and ends by itself when it is
idle. While it starts, is busy or has failed, this process analyses the texts. The worker has no
state, so nothing is lost when it ends or hangs.
"""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from knowledge_service import process_messages as messages
from knowledge_service.analysis_worker import version
from knowledge_service.domain.fact_text import FactText
from knowledge_service.search.text import batch_analysis
from knowledge_service.search.text.batch_analysis import AnalysedBatch

_log = logging.getLogger(__name__)
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(AnalysedBatch)
# Minimum number of facts in a batch; for fewer, the transfer costs more than it saves.
_MIN_FACTS = 32
# This number of batches within this time counts as an import. A single batch is analysed before a
# worker is ready, which takes about as long as the analysis of ten batches of 200 facts.
_MIN_BATCHES, _WINDOW_S = 2, 10.0
_IDLE_S = 30.0
# A batch of short facts takes about 5 ms, a large one less than a second for each
# `_BYTES_PER_SECOND`. A caller that has waited longer analyses the batch itself.
_PATIENCE_S = 1.0
_BYTES_PER_SECOND = 1 << 18
_START_S = 20.0
# The time without a worker after a failure.
_PAUSE_S = 30.0
# How long the worker may take to end by itself before it is killed.
_GRACE_S = 0.2


class AnalysisWorker:
    """Starts, uses and ends the worker process. Used by several threads."""

    def __init__(
        self,
        *,
        batches: int = _MIN_BATCHES,
        idle_s: float = _IDLE_S,
        patience_s: float = _PATIENCE_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._batches = batches
        self._idle_s = idle_s
        self._patience_s = patience_s
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._retry_at_s = float("-inf")
        self._window_start_s, self._batch_count = float("-inf"), 0
        self._is_stopped = False

    def analyse(self, texts: Sequence[FactText]) -> AnalysedBatch:
        """Analyse texts, in the worker or in this process; the result is the same."""
        analysed = self._request(_ENCODER.encode(texts)) if len(texts) >= _MIN_FACTS else None
        if analysed is None or not len(analysed.hashes) == len(analysed.terms) == len(texts):
            return batch_analysis.analyse_batch(texts)
        return analysed

    def stop(self) -> None:
        """End the worker; it is not started again."""
        self._is_stopped = True
        with self._lock:
            self._end_process()
        thread = self._thread
        if thread:
            thread.join()

    def _request(self, message: bytes) -> AnalysedBatch | None:
        if not self._lock.acquire(timeout=self._patience_s):
            return None
        try:
            if self._socket is None:
                self._count_batch()
                return None
            self._socket.settimeout(self._patience_s + len(message) / _BYTES_PER_SECOND)
            messages.send(self._socket, message)
            answer = messages.receive(self._socket)
            return _DECODER.decode(answer) if answer else None
        except (OSError, msgspec.DecodeError):
            self._end_process()
            return None
        finally:
            self._lock.release()

    def _count_batch(self) -> None:
        """Count a batch, and start the worker when there were enough."""
        now_s = self._monotonic()
        if now_s - self._window_start_s > _WINDOW_S:
            self._window_start_s, self._batch_count = now_s, 0
        self._batch_count += 1
        is_time = self._batch_count >= self._batches and now_s >= self._retry_at_s
        if is_time and self._thread is None and not self._is_stopped:
            thread = threading.Thread(target=self._supervise, name="analysis-worker", daemon=True)
            self._thread = thread
            try:
                thread.start()
            except RuntimeError as exc:  # the system has no more threads
                self._pause(str(exc))
                self._thread = None

    def _supervise(self) -> None:
        """Start the worker, and wait until it ends."""
        try:
            status = self._start_process().wait()
            with self._lock:
                self._end_process()
            failure = f"it ended with {status}" if status else ""
        except OSError as exc:
            failure = str(exc)
        if failure and not self._is_stopped:
            self._pause(failure)
        self._thread = None

    def _pause(self, failure: str) -> None:
        self._retry_at_s = self._monotonic() + _PAUSE_S
        _log.warning("batches are analysed without a worker", extra={"fields": {"why": failure}})

    def _start_process(self) -> subprocess.Popen[bytes]:
        service_end, worker_end = socket.socketpair()
        command = [
            sys.executable,
            "-P",
            "-m",
            "knowledge_service.analysis_worker",
            str(self._idle_s),
        ]
        try:
            with worker_end:
                process = subprocess.Popen(  # noqa: S603 - ourselves
                    command, stdin=worker_end.fileno(), stdout=subprocess.DEVNULL
                )
        except OSError:
            service_end.close()
            raise
        with self._lock:
            self._process = process
            if self._is_stopped:
                self._end_process()
        try:
            _check_version(service_end)
        except OSError:
            service_end.close()
            _terminate(process)
            raise
        with self._lock:
            self._socket = service_end
            if self._is_stopped:
                self._end_process()
        return process

    def _end_process(self) -> None:
        if self._socket:
            self._socket.close()
        if self._process:
            _terminate(self._process)
        self._socket = self._process = None
        self._batch_count = 0


def _check_version(service_end: socket.socket) -> None:
    """Wait until the worker is ready, and check that it has the version of the service.

    Raises:
        OSError: it is not ready in time, or has another version.
    """
    service_end.settimeout(_START_S)
    if messages.receive(service_end) != version.VERSION:
        raise OSError("the worker has another version of kais-knowledge; restart the service")


def _terminate(process: subprocess.Popen[bytes]) -> None:
    """Kill a process unless it ends by itself within the grace."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_S)
        return
    process.kill()
    process.wait()
