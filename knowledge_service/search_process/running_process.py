"""One process of the searches, from its start to its end, and the connections to it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, suppress

from knowledge_service.process_messages import Connection
from knowledge_service.search_process import protocol
from knowledge_service.search_process.failures import ProcessFailure
from knowledge_service.store.sqlite.db import read_pool

COMMAND = (sys.executable, "-P", "-X", "faulthandler", "-m", "knowledge_service.search_process")
# As many as there are slots for recalls, and some more.
_CONNECTIONS = 6
_PATIENCE_S = read_pool.SEARCH_WAIT.total_seconds()
# The process ends when the service closes its connections. A signal to the process group must not
# end it before, because the service still answers requests then.
_BLOCKED_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# How long to wait for a process that was killed, and for the threads that used it.
_END_S = 2.0
# What is read of its errors; a pipe holds as much.
_STDERR_BYTES = 64 << 10


class RunningProcess:
    """A process that has been started; the service may end it at any time."""

    def __init__(
        self, process: subprocess.Popen[bytes], stderr: int, endpoints: Sequence[socket.socket]
    ) -> None:
        self._process = process
        self._stderr = stderr
        self.control, self.health, self._overdue, *self._connections = map(Connection, endpoints)
        self._idle = deque(self._connections)
        self._idle_count = threading.Semaphore(len(self._idle))
        self.last_response_s = 0.0
        """When it answered a search for the last time, by `time.monotonic`."""
        self._is_closed = False
        self.failure: ProcessFailure | None = None
        """Why the service ended it; None if it did not."""

    @property
    def process_id(self) -> int:
        """Return the id of the process."""
        return self._process.pid

    def request(
        self, request: protocol.SearchRequest, wait_until_s: float
    ) -> protocol.SearchResponse:
        """Send a request, and wait for the response.

        Raises:
            TimeoutError: there is none in time.
            OSError, msgspec.DecodeError: the connection is closed or out of step.
        """
        if not self._idle_count.acquire(timeout=max(0.0, wait_until_s - time.monotonic())):
            raise TimeoutError("all connections are in use")
        if self._is_closed:
            self._idle_count.release()
            raise ConnectionResetError("the process has ended")
        connection, is_late = self._idle.pop(), True
        try:
            connection.send(protocol.encode(request), wait_until_s)
            # A late response belongs to an earlier request, of another reader.
            while True:
                response = protocol.decode_response(self._response(connection, wait_until_s))
                if response.number == request.number:
                    break
            is_late = False
        finally:
            # The process may still be busy with the request, so others come first.
            (self._idle.appendleft if is_late else self._idle.append)(connection)
            self._idle_count.release()
        self.last_response_s = time.monotonic()
        return response

    def _response(self, connection: Connection, wait_until_s: float) -> bytes | memoryview:
        """Wait for a response; report each time that it takes long."""
        while (overdue_at_s := time.monotonic() + _PATIENCE_S) < wait_until_s:
            with suppress(TimeoutError):
                return connection.receive(overdue_at_s)
            with suppress(TimeoutError):  # it has not read the last report yet
                self._overdue.send(protocol.OVERDUE, overdue_at_s - _PATIENCE_S)
        return connection.receive(wait_until_s)

    def ping(self, limit_s: float) -> bool:
        """Return whether the process answers within a time.

        Raises:
            OSError: it has ended.
        """
        ends_at_s = time.monotonic() + limit_s
        try:
            self.health.send(protocol.PING, ends_at_s)
            self.health.receive(ends_at_s)
        except TimeoutError:
            return False
        return True

    def has_ended(self, within_s: float) -> bool:
        """Wait for the end of the process, or until the service has ended it."""
        try:
            self.health.receive(time.monotonic() + within_s)
        except TimeoutError:
            return False
        except OSError:
            return True
        return False  # a late answer to a ping

    def end(self, failure: ProcessFailure | None) -> None:
        """Kill the process and fail all requests; it holds nothing that could be lost."""
        if self.failure is None:
            self.failure = failure
        # What the process has sent is dropped, too.
        for connection in (self.control, self.health, self._overdue, *self._connections):
            connection.shut_down()
        self._process.kill()

    def wait(self, within_s: float = _END_S) -> int | None:
        """Wait for the end of the process and return its status; None if it takes too long."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(within_s)
        return None

    def stderr(self) -> str:
        """Return what the process has written about its errors, from the beginning."""
        with suppress(BlockingIOError):
            return os.read(self._stderr, _STDERR_BYTES).decode(errors="replace")
        return ""

    def close(self) -> None:
        """Release the file descriptors, after `end`."""
        os.close(self._stderr)
        self.control.close()
        self.health.close()
        ends_at_s = time.monotonic() + _END_S
        for _ in self._connections:
            if self._idle_count.acquire(timeout=max(0.0, ends_at_s - time.monotonic())):
                self._idle.pop().close()
        self._overdue.close()  # no search is left to report
        # A thread may have chosen this process before it ended, and must not wait for a connection.
        self._is_closed = True
        self._idle_count.release(len(self._connections))


def start() -> tuple[RunningProcess, list[int]]:
    """Start a process; return it with its file descriptors: health, overdue, then the connections.

    Raises:
        OSError: there are too many processes or open files, or too little memory.
    """
    with ExitStack() as process_ends, ExitStack() as service_ends:
        endpoints, numbers = [], []
        for _ in range(3 + _CONNECTIONS):
            service_end, process_end = socket.socketpair()
            endpoints.append(service_ends.enter_context(service_end))
            numbers.append(process_ends.enter_context(process_end).fileno())
        stderr, process_stderr = os.pipe()
        service_ends.callback(os.close, stderr)
        process_ends.callback(os.close, process_stderr)
        os.set_blocking(stderr, False)
        # Nobody reads the pipe before the process has ended: what does not fit is dropped.
        os.set_blocking(process_stderr, False)
        signals = signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED_SIGNALS)
        try:
            process = subprocess.Popen(  # noqa: S603 - ourselves
                COMMAND, stdin=numbers[0], stdout=subprocess.DEVNULL, stderr=process_stderr,
                pass_fds=numbers[1:],
            )  # fmt: skip
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, signals)
        service_ends.pop_all()
    return RunningProcess(process, stderr, endpoints), numbers[1:]
