"""The process of the searches: reads the database file, and answers searches.

It writes nothing, and logs nothing: the service reports what fails. It ends when the service does.
"""

from __future__ import annotations

import functools
import gc
import os
import socket
import sys
import threading
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from knowledge_service import memory_allocator
from knowledge_service.errors import StoreUnavailable
from knowledge_service.process_messages import Connection
from knowledge_service.search.pipeline import RankerConfig
from knowledge_service.search_process import protocol
from knowledge_service.search_process.request_loop import RequestLoop
from knowledge_service.store.sqlite.db.read_pool import SEARCH_WAIT, ReadPool
from knowledge_service.store.sqlite.repositories import recall_search

# As in the service.
_GC_THRESHOLD = 20_000
# Odd: until the service has named a version, no search uses the cache.
_UNKNOWN_VERSION = -1


class SearchServer:
    """Answers searches from one pool of readers, which has the cache of postings."""

    def __init__(self, readers: ReadPool, config: RankerConfig) -> None:
        self._readers = readers
        self._config = config
        self._erasure_version = _UNKNOWN_VERSION

    def control(self, message: bytes | memoryview) -> None:
        """Follow the erasures of the service."""
        match protocol.decode_control(message):
            case protocol.ErasureVersion(number=number):
                self._erasure_version = number
            case protocol.Erased(version=version, documents=documents):
                self._readers.postings_cache.record_erasure(version, documents)

    def answer(self, message: bytes | memoryview) -> bytes:
        """Answer one request."""
        request = protocol.decode_request(message)
        response = protocol.SearchResponse(request.number)
        try:
            response.result = recall_search.run(
                self._readers, self._version, self._config, request.search, request.vector,
                ends_at_s=request.ends_at_s,
            )  # fmt: skip
        except StoreUnavailable as error:
            response.failure = protocol.Failure(type(error).__name__, error.detail)
        except Exception as error:  # noqa: BLE001 - the service raises it for the caller
            response.failure = protocol.Failure("", repr(error))
        return protocol.encode(response)

    def _version(self) -> int:
        return self._erasure_version


def main() -> None:
    """Answer until the service closes its connections.

    The service has blocked the signals that would end it, and reads what is written to stderr.
    """
    memory_allocator.configure()
    control = Connection(socket.socket(fileno=sys.stdin.fileno()))
    with suppress(ConnectionError):
        _serve(control)
    # Threads may still search, for nobody.
    os._exit(0)


def _serve(control: Connection) -> None:
    settings = protocol.decode_settings(control.receive())
    # The loop decides when a second search begins.
    readers = ReadPool(
        Path(settings.path), timedelta(seconds=settings.reads_within_s), search_wait=timedelta(0)
    )
    server = SearchServer(readers, settings.ranker_config)
    connections = {number: _connection(number) for number in settings.connections}
    overdue = _connection(settings.overdue)
    RequestLoop(server.answer, connections, overdue, SEARCH_WAIT).start()
    health = functools.partial(_return_pings, _connection(settings.health))
    threading.Thread(target=health, name="health", daemon=True).start()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD)
    control.send(protocol.version(settings.ranker_config))
    while True:
        server.control(control.receive())
        control.send(protocol.ACKNOWLEDGED)


def _connection(number: int) -> Connection:
    return Connection(socket.socket(fileno=number))


def _return_pings(connection: Connection) -> None:
    with suppress(ConnectionError):
        while True:
            connection.send(bytes(connection.receive()))


if __name__ == "__main__":
    main()
