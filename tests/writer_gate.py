"""Holds a store's writer up, so that a test decides which jobs share its next commit."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from knowledge_service.store.sqlite.store import SqliteStore


@contextmanager
def held_writer(store: SqliteStore) -> Iterator[threading.Event]:
    """Keep the writer busy with one job until the event is set or the block ends.

    The block begins when the writer has begun that job. It takes all jobs that are queued, so jobs
    that were queued earlier would run together with it.
    """
    event, release = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        event.set()
        release.wait(60)

    thread = threading.Thread(target=store._writer.submit, args=(hold,))
    thread.start()
    try:
        assert event.wait(30)
        yield release
    finally:
        release.set()
        thread.join()


def wait_for_queue(store: SqliteStore, length: int) -> None:
    """Wait until so many jobs are queued behind the one that holds the writer up."""
    deadline = time.monotonic() + 30
    while store._writer._queue.qsize() < length:
        assert time.monotonic() < deadline, f"{store._writer._queue.qsize()} of {length} jobs"
        time.sleep(0.001)
