"""Background threads survive unexpected errors, and log them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from knowledge_service.extraction.worker import Worker
from knowledge_service.meaning import filling
from knowledge_service.meaning.filling import Filler
from tests.fakes.store import MemoryStore


def failing_once(real: Callable[..., Any]) -> tuple[Callable[..., Any], threading.Event]:
    """Return a call that raises once, and what is set when it is made again."""
    calls, again = [], threading.Event()

    def call(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 1:
            raise ValueError("unexpected error")
        found = real(*args)
        again.set()
        return found

    return call, again


def test_extractions_go_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore()
    call, again = failing_once(store.open_extractions)
    monkeypatch.setattr(store, "open_extractions", call)
    worker = Worker(store, retry_s=0.001)
    worker.start()
    assert again.wait(5)
    worker.stop()
    assert "extraction failed; retrying in 0.001 s" in caplog.messages
    assert "unexpected error" in caplog.text


def test_vectors_go_on(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    class Empty:
        """Has no fact without a vector."""

        facts_without_vector: Callable[..., Any]

    class Embedder:
        """Is never asked."""

        model = "m"

    monkeypatch.setattr(filling, "_RETRY_S", 0.001)
    store: Any = Empty()
    store.facts_without_vector, again = failing_once(lambda *_: ())
    embedder: Any = Embedder()
    filler = Filler(store, embedder)
    filler.start()
    assert again.wait(5)
    filler.stop()
    assert "embedding failed; retrying in 0.001 s" in caplog.messages
    assert "unexpected error" in caplog.text
