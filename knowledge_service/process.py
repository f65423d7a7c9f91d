"""The process of the service: opens the store, assembles the app, and runs the HTTP server."""

from __future__ import annotations

import functools
import gc
import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING

from knowledge_service import clock, logging_config, memory_allocator, request_spans
from knowledge_service.analysis_worker.client import AnalysisWorker
from knowledge_service.asgi_app import create_app
from knowledge_service.authentication import kubernetes, people
from knowledge_service.authentication.disabled import NoAuthentication
from knowledge_service.authentication.tokens import TokenAuthentication
from knowledge_service.embeddings import settings as embeddings
from knowledge_service.embeddings.client import EndpointEmbedder
from knowledge_service.errors import StartupError
from knowledge_service.extraction import job, model_client, model_extractor
from knowledge_service.extraction import settings as extraction_settings
from knowledge_service.extraction.worker import ExtractionWorker, Queue
from knowledge_service.http_server import HttpServer
from knowledge_service.metrics import Metrics
from knowledge_service.search.pipeline import RankerConfig
from knowledge_service.search.ranking import weights
from knowledge_service.search_process.client import SearchProcess
from knowledge_service.startup_app import StartupApp
from knowledge_service.startup_progress import Progress
from knowledge_service.store.sqlite.store import SqliteStore
from knowledge_service.workers.background import BackgroundWorker, run_workers
from knowledge_service.workers.embeddings import EmbeddingBackfill
from knowledge_service.workers.index_merge import IndexMerge
from knowledge_service.workers.retention import RetentionWorker

if TYPE_CHECKING:
    from fastapi import FastAPI

    from knowledge_service.mcp_endpoint.endpoint import McpEndpoint
    from knowledge_service.ports import Authenticator, Store
    from knowledge_service.request_spans import RequestSpans
    from knowledge_service.settings import Settings

_log = logging.getLogger(__name__)
# New objects between garbage collections; Python's default of 700 costs 2 µs for each fact. The
# service creates few reference cycles.
_GC_THRESHOLD = 20_000
# How often the queue is checked for extractions whose retry is due; the first is after 30 s.
_MODEL_RETRY_POLL_S = 5.0


def serve(settings: Settings) -> None:
    """Serve until stopped, then finish queued writes and close the database.

    Raises:
        StartupError: the database cannot be opened.
    """
    logging_config.configure(settings.log_level)
    memory_allocator.configure()
    mcp = _mcp_endpoint(settings)
    progress = Progress()
    with ExitStack() as resources:

        def open_service() -> FastAPI:
            app, background = _open_service(settings, progress, mcp, resources)
            server.subscriptions = app.state.services.subscription_limiter
            # Objects of the startup live forever: scanning them would pause all requests for 50 ms.
            gc.collect()
            gc.freeze()
            gc.set_threshold(_GC_THRESHOLD)
            for each in background:
                resources.enter_context(each)
            return app

        app = StartupApp(open_service, progress)
        server = HttpServer(app, settings)
        try:
            server.run_until_signal()
        except SystemExit:  # uvicorn ends the process when the lifespan fails
            if app.error is None:
                raise
        if app.error is not None:
            raise app.error


def _open_service(
    settings: Settings, progress: Progress, mcp: McpEndpoint | None, resources: ExitStack
) -> tuple[FastAPI, Sequence[AbstractContextManager[None]]]:
    """Open the database; return the app and its background tasks. `resources` closes the rest."""
    spans = request_spans.start(clock.now) if settings.has_traces else None
    if spans is not None:
        resources.callback(spans.close)  # after the database: a collector may hang
    store = SqliteStore(
        settings.db,
        progress=progress,
        reads_within=settings.reads_within,
        undeclared_facts=settings.undeclared_facts,
        ranker_config=_ranker_config(settings),
    )
    resources.callback(store.close)
    metrics = _metrics_of(store)
    resources.callback(_search_process(settings, store, metrics).stop)
    models = _extraction_models(resources, metrics)
    workers = _workers(settings, store, metrics, models, spans)
    analysis_worker = AnalysisWorker()
    resources.callback(analysis_worker.stop)
    app = create_app(
        store,
        _authenticator(settings, store),
        metrics=metrics,
        extraction=workers[0],
        models=models,
        spans=spans,
        analyse_texts=analysis_worker.analyse,
        mcp=mcp,
    )
    store_identity = store.identity()
    fields = {"host": settings.host, "port": settings.port, "auth": settings.auth}
    fields |= {"db": str(settings.db), "store": store_identity.id, "epoch": store_identity.epoch}
    _log.info("serving", extra={"fields": fields})
    return app, (
        run_workers(workers), metrics.serve(settings.metrics_host, settings.metrics_port),
    )  # fmt: skip


def _search_process(settings: Settings, store: SqliteStore, metrics: Metrics) -> SearchProcess:
    """Start the process that searches for the store."""
    searcher = SearchProcess(
        settings.db,
        store.ranker_config,
        reads_within_s=settings.reads_within.total_seconds(),
        on_ready=store.drop_postings,
        on_failure=metrics.record_search_process_failure,
    )
    metrics.search_process_up.set_function(lambda: float(searcher.process_id is not None))
    store.search_in(searcher)
    searcher.start()
    return searcher


def _ranker_config(settings: Settings) -> RankerConfig:
    """Return the configuration of ranking; unusable weights are replaced by the shipped ones."""
    learned = weights.SHIPPED
    if settings.recall_weights is not None:
        try:
            learned = weights.read(settings.recall_weights)
        except weights.InvalidWeights as error:
            _log.error(
                "KAIS_RECALL_WEIGHTS: %s %s. The service ranks with the weights that it ships; "
                "make the file with `python -m bench.recall weights` of this version, or unset "
                "the variable",
                settings.recall_weights,
                error,
            )
    return RankerConfig(use_conversations=settings.recall_conversations, weights=learned)


def _mcp_endpoint(settings: Settings) -> McpEndpoint | None:
    """Return the MCP endpoint if it is switched on; only then is the SDK loaded.

    Raises:
        StartupError: the SDK is not installed.
    """
    if settings.mcp is None:
        return None
    try:
        from knowledge_service.mcp_endpoint.endpoint import McpEndpoint  # noqa: PLC0415 (30 MiB)
    except ModuleNotFoundError as exc:
        raise StartupError(
            f"--mcp (KAIS_MCP) needs the package {exc.name}: install kais[service,mcp]"
        ) from exc
    return McpEndpoint(origins=settings.mcp.origins, public_url=settings.mcp.url)


def _metrics_of(store: SqliteStore) -> Metrics:
    metrics = Metrics()
    metrics.erased_pending_s.set_function(store.erased_pending_s)
    metrics.receipts_waiting_s.set_function(store.receipts_waiting_s)
    metrics.watch_facts_to_erase(store.deleted_facts)
    metrics.watch_facts(store.facts_by_level)
    return metrics


def _extraction_models(resources: ExitStack, metrics: Metrics) -> job.Models | None:
    """Return the models that may extract facts; None without any."""
    configured = extraction_settings.read()
    if not configured.models:
        return None
    client = model_client.ModelClient()
    resources.callback(client.close)
    return job.Models(
        model_extractor.ModelExtractor(configured, client),
        clock.now,
        on_unverified=metrics.record_unverified_extraction,
    )


def _extraction_workers(
    store: Store, metrics: Metrics, models: job.Models | None, spans: RequestSpans | None
) -> list[BackgroundWorker]:
    """Return the workers: the first is woken for new extractions, a second one runs models."""
    on_run, on_end = metrics.record_task_run, metrics.record_extraction
    run_job = request_spans.traced_extraction(spans, job.run_extraction)
    if models is None:
        return [ExtractionWorker(store, on_run=on_run, on_end=on_end, run=run_job)]
    run = functools.partial(run_job, models=models)
    by_model = ExtractionWorker(
        store, on_run=on_run, on_end=on_end, run=run,
        queue=Queue("model", now=models.now, idle_s=_MODEL_RETRY_POLL_S, batch_size=1_000),
    )  # fmt: skip
    by_rules = ExtractionWorker(
        store, on_run=on_run, on_end=on_end, run=run,
        queue=Queue("rules", on_model_chosen=by_model.wake),
    )  # fmt: skip
    return [by_rules, by_model]


def _workers(
    settings: Settings,
    store: SqliteStore,
    metrics: Metrics,
    models: job.Models | None,
    spans: RequestSpans | None,
) -> list[BackgroundWorker]:
    """Return the background workers, the extraction worker first; embeddings need an endpoint."""
    on_run = metrics.record_task_run
    workers: list[BackgroundWorker] = [
        *_extraction_workers(store, metrics, models, spans),
        RetentionWorker(store, on_run=on_run, receipts_for=settings.receipts_for),
        IndexMerge(store, on_run=on_run),
    ]
    endpoint = embeddings.read()
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
    return kubernetes.KubernetesAuthentication(
        reviewer, store, settings.admin_subjects, people=people.parse_rules(settings.people)
    )
