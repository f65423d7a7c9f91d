"""Puts the service together: routes, problems, middleware, and the extractor's life."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.types import Message, Receive, Scope, Send

from knowledge_client import wire
from knowledge_service import clock as clocks
from knowledge_service.extraction.worker import Worker
from knowledge_service.flows.readiness import Readiness
from knowledge_service.metrics import Metrics
from knowledge_service.ports import Authenticator, Store
from knowledge_service.routes import (
    describing,
    events,
    extractions,
    facts,
    health,
    hot,
    links,
    lives,
    middleware,
    principals,
    problems,
    recall,
    reference,
    runs,
    scopes,
    usage,
)
from knowledge_service.routes.dependencies import Look, Services, look_here

_LEVEL = (wire.API_LEVEL_HEADER.lower().encode(), str(wire.API_LEVEL).encode())


def create_app(
    store: Store,
    authenticator: Authenticator,
    *,
    clock: clocks.Clock = clocks.now,
    metrics: Metrics | None = None,
    worker: Worker | None = None,
    look: Look = look_here,
) -> FastAPI:
    """Make the ASGI app. It starts and stops the worker; the store is closed by who opened it.

    Without a worker, extractions are accepted and wait for a process that has one.
    """
    counted = metrics or Metrics()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if worker:
            worker.start()
        yield
        if worker:
            worker.stop()

    app = _Service(
        title="kais knowledge service",
        version="1",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    services = app.state.services = Services(
        store=store,
        authenticator=authenticator,
        clock=clock,
        metrics=counted,
        wake_extractor=worker.wake if worker else _nobody,
        readiness=Readiness(store),
        look=look,
    )
    rooms = (
        facts, lives, links, recall, usage, runs, extractions, scopes, principals, events,
        reference, health,
    )  # fmt: skip
    for room in rooms:
        app.include_router(room.router)
    problems.install(app)
    app.add_middleware(middleware.BodyLimit)
    app.add_middleware(middleware.Faults)
    app.add_middleware(middleware.Observed, metrics=counted)
    app.state.hot = hot.Hot(app.answer, services)
    return app


class _Service(FastAPI):
    """Gives the hot routes what is theirs before anything else of the framework."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def levelled(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), _LEVEL]
            await send(message)

        await self.state.hot(scope, receive, levelled)

    def openapi(self) -> dict[str, Any]:
        """Describe every route with what it may refuse."""
        if self.openapi_schema is None:
            self.openapi_schema = describing.describe(super().openapi())
        return self.openapi_schema

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the framework does."""
        await super().__call__(scope, receive, send)


def _nobody() -> None:
    """Wake nobody."""
