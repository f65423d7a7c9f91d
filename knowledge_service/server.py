"""Opens the store, creates the app, and serves until a signal arrives."""

from __future__ import annotations

import gc
import logging
import signal
from typing import TYPE_CHECKING

import uvicorn

from knowledge_service import http_limits, logging_config, malloc, startup_server
from knowledge_service.analysis_worker.client import AnalysisWorker
from knowledge_service.app import create_app
from knowledge_service.authentication import kubernetes
from knowledge_service.authentication.disabled import NoAuthentication
from knowledge_service.authentication.tokens import TokenAuthentication
from knowledge_service.embeddings import settings as embeddings
from knowledge_service.embeddings.client import EndpointEmbedder
from knowledge_service.errors import StartupError
from knowledge_service.extraction.worker import ExtractionWorker
from knowledge_service.metrics import Metrics
from knowledge_service.search.pipeline import RankerConfig
from knowledge_service.startup_progress import Progress
from knowledge_service.store.sqlite.store import SqliteStore
from knowledge_service.workers.background import BackgroundWorker, run_workers
from knowledge_service.workers.embeddings import EmbeddingBackfill
from knowledge_service.workers.retention import RetentionWorker

if TYPE_CHECKING:
    from types import FrameType

    from fastapi import FastAPI

    from knowledge_service.ports import Authenticator, Store
    from knowledge_service.settings import Settings
    from knowledge_service.use_cases.event_stream import SubscriptionLimiter

_log = logging.getLogger(__name__)
# Time for requests in flight after SIGTERM; a pod has 30 s in total.
_SHUTDOWN_TIMEOUT_S = 15
# New objects between garbage collections; Python's default of 700 costs 2 µs for each fact. The
# service creates few reference cycles.
_GC_THRESHOLD = 20_000


def serve(settings: Settings) -> None:
    """Serve until stopped, then finish queued writes and close the database.

    Raises:
        StartupError: the database cannot be opened.
    """
    logging_config.configure(settings.log_level)
    malloc.configure()
    progress = Progress()
    handover = startup_server.Handover()
    with startup_server.answering_meanwhile(
        settings.host, settings.port, progress, handover=handover
    ):
        store = SqliteStore(
            settings.db,
            progress=progress,
            reads_within=settings.reads_within,
            undeclared_facts=settings.undeclared_facts,
            ranker_config=RankerConfig(use_conversations=settings.recall_conversations),
        )
    metrics = _metrics_of(store)
    workers = _workers(settings, store, metrics)
    analysis_worker = AnalysisWorker()
    app = create_app(
        store,
        _authenticator(settings, store),
        metrics=metrics,
        extraction=workers[0],
        analyse_texts=analysis_worker.analyse,
    )
    store_identity = store.identity()
    fields = {"host": settings.host, "port": settings.port, "auth": settings.auth}
    fields |= {"db": str(settings.db), "store": store_identity.id, "epoch": store_identity.epoch}
    _log.info("serving", extra={"fields": fields})
    server = _http_server(app, settings)
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        # uvicorn installs its handlers later, and raises the signal again after it stopped, while
        # the store is still open.
        signal.signal(signal_number, server.handle_exit)
    try:
        # The objects of the startup stay: collecting them would pause all requests for 50 ms.
        gc.collect()
        gc.freeze()
        gc.set_threshold(_GC_THRESHOLD)
        with run_workers(workers), metrics.serve(settings.metrics_host, settings.metrics_port):
            server.run(sockets=[handover.listener] if handover.listener else None)
    finally:
        analysis_worker.stop()
        store.close()


def _metrics_of(store: SqliteStore) -> Metrics:
    metrics = Metrics()
    metrics.erased_pending_s.set_function(store.erased_pending_s)
    metrics.receipts_waiting_s.set_function(store.receipts_waiting_s)
    metrics.facts_to_erase.set_function(store.deleted_facts)
    metrics.watch_facts(store.facts_by_level)
    return metrics


def _http_server(app: FastAPI, settings: Settings) -> _StreamEndingServer:
    configuration = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=http_limits.LimitedHttpProtocol,
        loop="uvloop",
        proxy_headers=False,
        server_header=False,
        date_header=False,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT_S,
    )
    return _StreamEndingServer(configuration, app.state.services.subscription_limiter)


class _StreamEndingServer(uvicorn.Server):
    """Ends event streams on shutdown, which would otherwise last until the shutdown timeout.

    A signal during startup takes effect when startup is complete, so that the shutdown is too.
    """

    def __init__(self, configuration: uvicorn.Config, subscriptions: SubscriptionLimiter) -> None:
        super().__init__(configuration)
        self._subscriptions = subscriptions
        self._is_up = False
        self._pending_signal: int | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop accepting requests, and end the streams."""
        self._subscriptions.is_closing = True
        if self._is_up:
            super().handle_exit(sig, frame)
        else:
            self._pending_signal = sig

    async def main_loop(self) -> None:
        """Serve until a signal arrives, or not at all when one arrived during startup."""
        self._is_up = True
        if self._pending_signal is not None:
            super().handle_exit(self._pending_signal, None)
        await super().main_loop()


def _workers(settings: Settings, store: SqliteStore, metrics: Metrics) -> list[BackgroundWorker]:
    """Return the background workers, the extraction worker first; embeddings need an endpoint."""
    on_run = metrics.record_task_run
    workers: list[BackgroundWorker] = [
        ExtractionWorker(store, on_run=on_run, on_end=metrics.record_extraction),
        RetentionWorker(store, on_run=on_run, receipts_for=settings.receipts_for),
    ]
    try:
        endpoint = embeddings.read()
    except StartupError:
        store.close()
        raise
    if endpoint:
        store.embedder = EndpointEmbedder(endpoint.url, endpoint.model, endpoint.key)
        workers.append(EmbeddingBackfill(store, store.embedder, on_run=on_run))
    return workers


def _authenticator(settings: Settings, store: Store) -> Authenticator:
    if settings.auth == "none":
        return NoAuthentication()
    if settings.auth == "token" and settings.token_file:
        return TokenAuthentication(settings.token_file)
    client = kubernetes.http_client(settings.kube_api, settings.kube_ca_file)
    reviewer = kubernetes.TokenReviewer(client, settings.kube_token_file, settings.audience)
    return kubernetes.KubernetesAuthentication(reviewer, store, settings.admin_subjects)
