"""The routes for probes and Prometheus: /healthz, /readyz and /metrics.

/healthz succeeds as long as the event loop runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web

from kais_operator.manager.metrics import Metrics

_LAG_TICK_S = 0.5
_METRICS_HEADERS = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}


class HealthServer:
    """Serves the routes; `problem` returns why the operator is not ready, None if it is."""

    def __init__(
        self, metrics: Metrics, problem: Callable[[], str | None], *, host: str, port: int
    ) -> None:
        self._metrics = metrics
        self._problem = problem
        self._host = host
        self._port = port
        self._runner: web.AppRunner | None = None
        self._lag_task: asyncio.Task[None] | None = None

    async def start(self) -> int:
        """Listen, and return the port; raises OSError if it is in use."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics_page)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        await site.start()
        self._lag_task = asyncio.create_task(self._measure_lag())
        return int(self._runner.addresses[0][1])

    async def close(self) -> None:
        """Stop listening."""
        if self._lag_task is not None:
            self._lag_task.cancel()
            await asyncio.gather(self._lag_task, return_exceptions=True)
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="the event loop turns\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        problem = self._problem()
        if problem is None:
            return web.Response(text="ready\n")
        return web.Response(text=f"{problem}\n", status=503)

    async def _metrics_page(self, _: web.Request) -> web.Response:
        return web.Response(body=self._metrics.render(), headers=_METRICS_HEADERS)

    async def _measure_lag(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _LAG_TICK_S
            await asyncio.sleep(_LAG_TICK_S)
            self._metrics.loop_lag_s = max(0.0, loop.time() - due)
