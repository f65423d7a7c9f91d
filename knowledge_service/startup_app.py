"""The ASGI app while the database is opened, and the lifespan that opens it.

A thread opens the database and assembles the service's own app, which then gets all requests. Until
a migration is done, nothing else can be answered, but probes must find the process alive: a kubelet
kills it otherwise, and the migration starts again.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.responses import Response

from knowledge_client.models import Health
from knowledge_service.errors import StoreUnavailable
from knowledge_service.routes import problems, request_bodies

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import Receive, Scope, Send

    from knowledge_service.startup_progress import Progress

# Without a migration, the database is open before this, so that no client gets 503.
_DELAY_S = 1.0


class StartupApp:
    """Answers with the progress until the service is open, then passes requests on.

    `open_service` runs in a thread. If it fails, the exception is in `error`, and `on_failure` is
    called in the event loop.
    """

    def __init__(
        self, open_service: Callable[[], FastAPI], progress: Progress, *, delay_s: float = _DELAY_S
    ) -> None:
        self._open_service = open_service
        self._progress = progress
        self._delay_s = delay_s
        self._service: FastAPI | None = None
        self.is_opening = False
        self.error: Exception | None = None
        self.on_failure: Callable[[], None] = lambda: None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request or the lifespan."""
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        elif self._service is not None:
            await self._service(scope, receive, send)
        elif scope["type"] == "http":
            await _discard_body(receive)
            await self._response_to(scope["path"])(scope, receive, send)

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        """Let the server listen once the service is open, or after the delay if that is earlier."""
        await receive()
        stop = asyncio.Event()
        is_settled = asyncio.Event()
        service = asyncio.create_task(self._run_service(is_settled, stop))
        with_delay = asyncio.create_task(is_settled.wait())
        await asyncio.wait({with_delay}, timeout=self._delay_s)
        with_delay.cancel()
        if self.error is not None:
            await send({"type": "lifespan.startup.failed"})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        stop.set()
        if is_settled.is_set():
            await service
        await send({"type": "lifespan.shutdown.complete"})

    async def _run_service(self, is_settled: asyncio.Event, stop: asyncio.Event) -> None:
        """Open the service, and run its own lifespan until `stop`."""
        try:
            self.is_opening = True
            app = await self._open_in_thread()
            self.is_opening = False
            async with app.router.lifespan_context(app):
                self._service = app
                is_settled.set()
                await stop.wait()
        except Exception as exc:  # noqa: BLE001 - the process reports it after the server ended
            self.error = exc
            is_settled.set()
            self.on_failure()

    async def _open_in_thread(self) -> FastAPI:
        """Run `open_service` in a daemon thread, which does not delay the end of the process."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[FastAPI] = loop.create_future()

        def run() -> None:
            try:
                app = self._open_service()
            except Exception as exc:  # noqa: BLE001 - the caller that awaits the future gets it
                settle = functools.partial(future.set_exception, exc)
            else:
                settle = functools.partial(future.set_result, app)
            with contextlib.suppress(RuntimeError):  # the server has ended, and its loop with it
                loop.call_soon_threadsafe(settle)

        threading.Thread(target=run, name="open-service", daemon=True).start()
        return await future

    def _response_to(self, path: str) -> Response:
        detail = f"{self._progress.description}; try again"
        error = StoreUnavailable(detail)
        if path == "/healthz":
            return _health_response(200, Health(status="ok"), error)
        if path in ("/readyz", "/health"):
            return _health_response(503, Health(status="unavailable", detail=detail), error)
        response = problems.problem_response(error)
        response.headers["Connection"] = "close"
        return response


def _health_response(status: int, health: Health, error: StoreUnavailable) -> Response:
    headers = {"Retry-After": str(error.retry_after_s), "Connection": "close"}
    return Response(health.model_dump_json(), status, headers, media_type="application/json")


async def _discard_body(receive: Receive) -> None:
    """Read the body and drop it: closing before that would lose the response."""
    size = 0
    while size <= request_bodies.MAX_BYTES:
        message = await receive()
        size += len(message.get("body", b""))
        if not message.get("more_body"):
            return
