"""Assembles the ASGI app: routes, middleware and the OpenAPI document."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route, Router
from starlette.types import Receive, Scope, Send

from knowledge_service import clock as clocks
from knowledge_service.extraction.job import Models
from knowledge_service.metrics import Metrics
from knowledge_service.ports import Authenticator, Store
from knowledge_service.request_spans import RequestSpans
from knowledge_service.routes import (
    charts,
    compat_v0,
    events,
    extractions,
    fact_lifecycle,
    facts,
    graph,
    health,
    links,
    middleware,
    openapi_errors,
    operations,
    peers,
    principals,
    recall,
    runs,
    scopes,
    usage,
)
from knowledge_service.search.text import batch_analysis
from knowledge_service.use_cases.readiness import Readiness
from knowledge_service.use_cases.services import AnalyseTexts, Services
from knowledge_service.workers.background import BackgroundWorker

if TYPE_CHECKING:
    from knowledge_service.mcp_endpoint.endpoint import McpEndpoint

_OPENAPI = "/openapi.json"


def create_app(  # noqa: PLR0913 (one argument per part)
    store: Store,
    authenticator: Authenticator,
    *,
    clock: clocks.Clock = clocks.now,
    metrics: Metrics | None = None,
    extraction: BackgroundWorker | None = None,
    analyse_texts: AnalyseTexts = batch_analysis.analyse_batch,
    mcp: McpEndpoint | None = None,
    models: Models | None = None,
    spans: RequestSpans | None = None,
) -> FastAPI:
    """Create the ASGI app; the caller opens and closes the store and the extraction worker.

    Without a worker, extractions are accepted and wait for a process that has one. Without `mcp`,
    there is no route `/mcp`, and nothing of it is loaded. `models` may replay extractions.
    Without `spans` no traces are sent.
    """
    recorded_metrics = metrics or Metrics()

    app = _App(
        title="kais knowledge service",
        version="1",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=mcp.lifespan if mcp else None,
    )
    app.state.services = Services(
        store=store,
        authenticator=authenticator,
        clock=clock,
        metrics=recorded_metrics,
        wake_extractor=extraction.wake if extraction else _wake_nobody,
        readiness=Readiness(store),
        analyse_texts=analyse_texts,
        models=models,
    )
    modules = (
        facts, fact_lifecycle, operations, links, graph, charts, recall, usage, runs, extractions,
        scopes, principals, peers, events, compat_v0, health,
    )  # fmt: skip
    for module in modules:
        app.include_router(module.router)
    routes = _ExactRouter(
        [
            Route(_OPENAPI, lambda _: JSONResponse(app.openapi())),
            *(route for module in modules for route in module.router.routes),
            *(mcp.routes() if mcp else ()),
        ]
    )
    app.state.requests = middleware.RequestMetrics(
        middleware.ErrorResponses(routes), recorded_metrics, spans
    )
    return app


class _App(FastAPI):
    """FastAPI generates the OpenAPI document; `Endpoint` handles the requests."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._openapi_lock = threading.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request or the lifespan."""
        if scope["type"] == "http":
            scope["app"] = self
            await self.state.requests(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document with its additions, generated once for all threads."""
        # FastAPI caches its document before anything is added to it.
        with self._openapi_lock:
            if self.openapi_schema is None:
                document = openapi_errors.add_error_responses(super().openapi())
                self.openapi_schema = openapi_errors.add_authentication(document)
            return self.openapi_schema


class _ExactRouter(Router):
    """Looks up routes without parameters by method and path, before it matches patterns."""

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        super().__init__(list(routes))
        self._exact = {
            (method, route.path): route
            for route in self.routes
            if isinstance(route, Route) and not route.param_convertors
            for method in route.methods or ()
        }

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Dispatch a request."""
        route = self._exact.get((scope["method"], scope["path"]))
        if route is None:
            await super().app(scope, receive, send)
        else:
            scope["route"], scope["path_params"] = route, {}
            await route.app(scope, receive, send)


def _wake_nobody() -> None:
    """Do nothing, because there is no extraction worker."""
