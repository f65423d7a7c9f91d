"""Answers the requests of several connections: one at a time, or two if the first takes long.

One thread waits for requests and answers them. The others wait in their sockets, so they wake no
thread that takes the interpreter's lock from the search that runs. A second thread answers them
when the service reports that one is overdue, and the first thread has had its own for as long,
until that thread begins its next one. No thread waits for the service to read a response.
"""

from __future__ import annotations

import functools
import os
import select
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from datetime import timedelta

from knowledge_service.process_messages import Connection

# Each event goes to one thread, which enables the next one of the connection after its response.
_READABLE = select.EPOLLIN | select.EPOLLONESHOT
_WRITABLE = select.EPOLLOUT | select.EPOLLONESHOT


class RequestLoop:
    """Two threads that answer requests until the connections are closed, by file descriptor."""

    def __init__(
        self,
        answer: Callable[[bytes | memoryview], bytes],
        connections: Mapping[int, Connection],
        overdue: Connection,
        patience: timedelta,
    ) -> None:
        self._answer = answer
        self._connections = connections
        self._overdue = overdue
        self._patience_s = patience.total_seconds()
        self._ready = select.epoll()
        for number in connections:
            self._ready.register(number, _READABLE)
        self._turn = 0
        """The number of the request that the first thread answers, or answered last."""
        self._turn_began_s = 0.0

    def start(self) -> None:
        """Start both threads; they end with the process."""
        for run in (self._run, self._run_when_overdue):
            work = functools.partial(_run_or_exit, run)
            threading.Thread(target=work, name="search", daemon=True).start()

    def _run(self) -> None:
        wait_for_one = functools.partial(self._ready.poll, None, 1)
        while True:
            for number, _ in wait_for_one():
                self._turn += 1
                self._turn_began_s = time.monotonic()
                self._answer_requests(number)

    def _run_when_overdue(self) -> None:
        while True:
            self._overdue.receive()
            turn = self._turn
            if time.monotonic() - self._turn_began_s < self._patience_s:
                continue  # many short ones; the service reports again
            while turn == self._turn and (events := self._ready.poll(0, 1)):
                self._answer_requests(events[0][0])

    def _answer_requests(self, number: int) -> None:
        """Answer what a connection has sent: one request, unless the service stopped waiting.

        The service may leave a late response unread for long, so its rest is sent when it reads.
        """
        connection = self._connections[number]
        try:
            connection.continue_send()
            while not connection.has_unsent:
                request = connection.receive_available()
                if request is None:
                    break
                connection.begin_send(self._answer(request))
                if not connection.has_received:
                    break
        except ConnectionError:  # the service has closed it
            self._ready.unregister(number)
        else:
            self._ready.modify(number, _WRITABLE if connection.has_unsent else _READABLE)


def _run_or_exit(run: Callable[[], None]) -> None:
    """Run a thread; end the process if it fails, because nobody would answer."""
    try:
        run()
    except ConnectionError:
        return  # the service has closed its connections, so the process ends
    except BaseException:  # noqa: BLE001 - the service reports what it reads from stderr
        traceback.print_exc()
        os._exit(1)
