"""The HTTP server: uvicorn with our limits, and its end on a signal."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import uvicorn

from knowledge_service import http_limits

if TYPE_CHECKING:
    import socket
    from types import FrameType

    from knowledge_service.settings import Settings
    from knowledge_service.startup_app import StartupApp
    from knowledge_service.use_cases.event_stream import SubscriptionLimiter

# Time for requests in flight after SIGTERM; a pod has 30 s in total.
_SHUTDOWN_TIMEOUT_S = 15
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SIGNAL_STATUS = 128


class HttpServer(uvicorn.Server):
    """Ends event streams on shutdown, which would otherwise last until the shutdown timeout.

    A signal while the database is opened ends the process at once: the next start repeats the
    interrupted step, as after a kill. A signal before that prevents the startup; one between the
    opening and the main loop takes effect there, so that the shutdown is complete.
    """

    def __init__(self, app: StartupApp, settings: Settings) -> None:
        super().__init__(_configuration(app, settings))
        self._app = app
        app.on_failure = self._stop
        self._is_up = False
        self._pending_signal: int | None = None
        self.subscriptions: SubscriptionLimiter | None = None
        """The event streams; None until the service is open."""

    def run_until_signal(self) -> None:
        """Serve until a signal arrives, or until the service cannot be opened."""
        for signal_number in _SIGNALS:
            # uvicorn installs its handlers later, and raises the signal again after it stopped,
            # while the store is still open.
            signal.signal(signal_number, self.handle_exit)
        self.run()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop accepting requests, and end the streams."""
        if self.subscriptions is not None:
            self.subscriptions.is_closing = True
        elif self._app.is_opening:
            os._exit(_SIGNAL_STATUS + sig)
        if self._is_up:
            super().handle_exit(sig, frame)
        else:
            self._pending_signal = sig

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open the service and listen, unless a signal has arrived."""
        if self._pending_signal is None:
            await super().startup(sockets)
        else:
            self.should_exit = True

    async def main_loop(self) -> None:
        """Serve until a signal arrives, or not at all when one arrived during startup."""
        self._is_up = True
        if self._pending_signal is not None:
            super().handle_exit(self._pending_signal, None)
        await super().main_loop()

    def _stop(self) -> None:
        self.should_exit = True


def _configuration(app: StartupApp, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=http_limits.LimitedHttpProtocol,
        loop="uvloop",
        lifespan="on",
        proxy_headers=False,
        server_header=False,
        date_header=False,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT_S,
    )
