"""The process of the searches: reads the database file, and answers searches.

It writes nothing, and logs nothing: the service reports what fails. It ends when the service does.
"""

from __future__ import annotations

import functools
import gc
import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from knowledge_service import memory_allocator
from knowledge_service import process_messages as messages
from knowledge_service.errors import StoreUnavailable
from knowledge_service.search import ranker_version
from knowledge_service.search.pipeline import RankerConfig
from knowledge_service.search_process import protocol
from knowledge_service.store.sqlite.db.read_pool import ReadPool
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

    def control(self, message: bytes) -> None:
        """Follow the erasures of the service."""
        match protocol.decode_control(message):
            case protocol.ErasureVersion(number=number):
                self._erasure_version = number
            case protocol.Erased(version=version, documents=documents):
                self._readers.postings_cache.record_erasure(version, documents)

    def answer(self, message: bytes) -> bytes:
        """Answer one request."""
        request = protocol.decode_request(message)
        if isinstance(request, protocol.WaitForSnapshots):
            self._readers.wait_for_open_snapshots()
            return protocol.ACKNOWLEDGED
        try:
            response = protocol.SearchResponse(
                result=recall_search.run(
                    self._readers, self._version, self._config, request.search, request.vector
                )
            )
        except StoreUnavailable as error:
            response = protocol.SearchResponse(
                failure=protocol.Failure(type(error).__name__, error.detail)
            )
        except Exception as error:  # noqa: BLE001 - the service raises it for the caller
            response = protocol.SearchResponse(failure=protocol.Failure("", repr(error)))
        return protocol.encode(response)

    def _version(self) -> int:
        return self._erasure_version


def main() -> None:
    """Answer until the service closes its connections."""
    # The service handles a signal to the whole process group, and ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    memory_allocator.configure()
    service = socket.socket(fileno=sys.stdin.fileno())
    with suppress(OSError):
        _serve(service)
    # Threads may still search, for nobody.
    os._exit(0)


def _serve(service: socket.socket) -> None:
    settings = protocol.decode_settings(messages.receive(service))
    readers = ReadPool(Path(settings.path), timedelta(seconds=settings.reads_within_s))
    server = SearchServer(readers, settings.ranker_config)
    for number in settings.connections:
        connection = socket.socket(fileno=number)
        work = functools.partial(_serve_requests, server, connection)
        threading.Thread(target=work, name="search", daemon=True).start()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD)
    messages.send(service, ranker_version.version_of(settings.ranker_config).encode())
    while True:
        server.control(messages.receive(service))
        messages.send(service, protocol.ACKNOWLEDGED)


def _serve_requests(server: SearchServer, connection: socket.socket) -> None:
    with suppress(OSError):
        while True:
            messages.send(connection, server.answer(messages.receive(connection)))


if __name__ == "__main__":
    main()
