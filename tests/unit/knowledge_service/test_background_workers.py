"""Background threads survive unexpected errors, and log them."""

from __future__ import annotations

import functools
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from knowledge_client.models import Extraction
from knowledge_service.domain.run_reports import RunKey
from knowledge_service.extraction import worker as extraction_worker
from knowledge_service.extraction.worker import ExtractionWorker, Queue
from knowledge_service.metrics import Metrics
from knowledge_service.ports.embeddings import EmbeddingFailed, UnembeddedFact
from knowledge_service.workers.background import BackgroundWorker, run_workers
from knowledge_service.workers.embeddings import EmbeddingBackfill
from tests.fakes.store import MemoryStore


def failing_once(real: Callable[..., Any]) -> tuple[Callable[..., Any], threading.Event]:
    """Return a call that raises once, and what is set when it is made again."""
    calls, event = [], threading.Event()

    def call(*args: Any, **options: Any) -> Any:
        calls.append(args)
        if len(calls) == 1:
            raise ValueError("unexpected error")
        matching_real = real(*args, **options)
        event.set()
        return matching_real

    return call, event


def test_failing_task_is_logged_and_counted_and_runs_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    call, event = failing_once(lambda: None)
    metrics = Metrics()
    worker = BackgroundWorker("any", {"any": call}, retry_s=0.001, on_run=metrics.record_task_run)
    with run_workers([worker]):
        assert event.wait(5)
    assert "any failed; retrying in 0.001 s" in caplog.messages
    assert "unexpected error" in caplog.text
    text = metrics.render().decode()
    assert 'kais_knowledge_upkeep_failures_total{task="any"} 1.0' in text
    assert 'kais_knowledge_upkeep_last_success_timestamp_seconds{task="any"}' in text


def test_task_without_a_delay_runs_again_when_the_worker_is_woken() -> None:
    runs: queue.Queue[None] = queue.Queue()
    worker = BackgroundWorker("any", {"any": lambda: runs.put(None)}, retry_s=1, delay_s=None)
    with run_workers([worker]):
        assert runs.empty()
        for _ in range(2):
            worker.wake()
            runs.get(timeout=60)
    assert runs.empty()


def test_worker_that_never_ran_is_stopped() -> None:
    BackgroundWorker("any", {}, retry_s=1).stop()


def test_all_workers_are_told_to_stop_before_any_is_waited_for() -> None:
    def wait_for(name: str) -> None:
        delay.put(name)
        while (
            not all(background_worker.is_stopping for background_worker in workers)
            and time.monotonic() < deadline
        ):
            time.sleep(0.001)
        fields[name] = all(background_worker.is_stopping for background_worker in workers)

    deadline, delay, fields = time.monotonic() + 60, queue.Queue[str](), dict[str, bool]()
    workers = [
        BackgroundWorker(name, {name: functools.partial(wait_for, name)}, retry_s=1, delay_s=None)
        for name in ("first", "second")
    ]
    with run_workers(workers):
        for worker in workers:
            worker.wake()
            delay.get(timeout=60)
    assert fields == {"first": True, "second": True}


def test_workers_that_were_started_are_stopped_when_another_does_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> None:
        raise RuntimeError("can't start new thread")

    workers = [
        BackgroundWorker(name, {}, retry_s=1, delay_s=None) for name in ("started", "refused")
    ]
    monkeypatch.setattr(workers[1], "start", refuse)
    with pytest.raises(RuntimeError, match="can't start"), run_workers(workers):
        pass
    assert "started" not in {thread.name for thread in threading.enumerate()}


def test_extractions_go_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore()
    call, event = failing_once(store.open_extractions)
    monkeypatch.setattr(store, "open_extractions", call)
    with run_workers([ExtractionWorker(store, on_run=lambda *_: None, retry_s=0.001)]):
        assert event.wait(5)
    assert "extraction failed; retrying in 0.001 s" in caplog.messages
    assert "unexpected error" in caplog.text


class OpenExtractions:
    """Extractions that wait for a model until they ended; `ask` is the job."""

    def __init__(self, *run_ids: str) -> None:
        self._open = list(run_ids)
        self.asked: list[str] = []
        self.ended = threading.Event()

    def open_extractions(self, limit: int, **_: Any) -> tuple[tuple[RunKey, Extraction], ...]:
        return tuple(
            (RunKey("realm:demo", run_id), self._extraction(run_id))
            for run_id in self._open[:limit]
        )

    def ask(self, _: Any, key: RunKey) -> Extraction:
        self.asked.append(key.run_id)
        if key.run_id.startswith("silent"):
            return self._extraction(key.run_id)
        self._open.remove(key.run_id)
        self.ended.set()
        return self._extraction(key.run_id).model_copy(update={"state": "done"})

    @staticmethod
    def _extraction(run_id: str) -> Extraction:
        return Extraction(run_id=run_id, state="pending", model=run_id.split("-", maxsplit=1)[0])


def test_model_that_does_not_answer_delays_extractions_by_others_once() -> None:
    store: Any = OpenExtractions("silent-1", "silent-2", "silent-3", "quick-1")
    worker = ExtractionWorker(
        store, on_run=lambda *_: None, run=store.ask, queue=Queue("model", idle_s=600)
    )
    with run_workers([worker]):
        assert store.ended.wait(30)
    assert store.asked == ["silent-1", "quick-1"]


def test_process_ends_although_a_model_still_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extraction_worker, "_STOP_TIMEOUT_S", 0.01)
    asked, answered = threading.Event(), threading.Event()

    def ask(_: Any, key: RunKey) -> Extraction:
        asked.set()
        answered.wait(60)
        return Extraction(run_id=key.run_id, state="done", model="slow")

    store: Any = OpenExtractions("slow-1")
    worker = ExtractionWorker(
        store, on_run=lambda *_: None, run=ask, queue=Queue("model", idle_s=600)
    )
    with run_workers([worker]):
        assert asked.wait(30)
    is_still_asking = not answered.is_set()
    answered.set()
    assert is_still_asking


def test_vectors_go_on(caplog: pytest.LogCaptureFixture) -> None:
    class Empty:
        """Has no fact without a vector."""

        facts_without_vector: Callable[..., Any]

    class Embedder:
        """Is never asked."""

        model = "m"

    store: Any = Empty()
    store.facts_without_vector, event = failing_once(lambda *_: ([], None))
    embedder: Any = Embedder()
    with run_workers([EmbeddingBackfill(store, embedder, on_run=lambda *_: None, retry_s=0.001)]):
        assert event.wait(5)
    assert "embedding failed; retrying in 0.001 s" in caplog.messages
    assert "unexpected error" in caplog.text


def test_endpoint_that_gives_no_vectors_is_counted_as_a_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Waiting:
        """Has a fact without a vector."""

        def facts_without_vector(self, *_: Any) -> tuple[list[UnembeddedFact], None]:
            return [UnembeddedFact("f-1", "rain")], None

    class Dead:
        """Does not answer."""

        model = "m"

        def embed_batch(self, _texts: Any) -> None:
            requested_queue.put(None)
            raise EmbeddingFailed("connection refused", may_be_the_texts=False)

    requested_queue: queue.Queue[None] = queue.Queue()
    store: Any = Waiting()
    embedder: Any = Dead()
    metrics = Metrics()
    worker = EmbeddingBackfill(store, embedder, on_run=metrics.record_task_run, retry_s=0.001)
    with run_workers([worker]):
        for _ in range(2):
            requested_queue.get(timeout=60)
    text = metrics.render().decode()
    assert 'kais_knowledge_upkeep_failures_total{task="embedding"}' in text
    assert 'last_success_timestamp_seconds{task="embedding"}' not in text
    assert "embedding failed; retrying in 0.001 s" in caplog.messages
    assert "Traceback" not in caplog.text


def test_metric_of_failures_names_all_tasks() -> None:
    (reported_line,) = [
        line
        for line in Metrics().render().decode().splitlines()
        if line.startswith("# HELP kais_knowledge_upkeep_failures_total")
    ]
    for task in ("retention", "erasure", "receipts", "extraction", "embedding"):
        assert task in reported_line
