"""Answers in the service's place while its database is being opened, when that takes long.

Nothing else can be answered before a migration is done, but whoever watches the process must know
that it lives: a probe that finds nobody kills it, and the migration begins anew.
"""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from knowledge_client.models import Health
from knowledge_service.errors import StoreUnavailable
from knowledge_service.routes import middleware
from knowledge_service.startup_progress import Progress

# A file that needs nothing is open before; then nobody has to let go of the port.
_DELAY_S = 1.0
_CHUNK_BYTES = 65_536


@contextmanager
def answering_meanwhile(
    host: str, port: int, progress: Progress, *, after_s: float = _DELAY_S
) -> Iterator[None]:
    """Answer on the service's address during the block, from `after_s` on.

    `/healthz` says that the process lives, everything else 503 with the progress. An address that
    cannot be had is left to the service itself, which says so.
    """
    done = threading.Event()

    def serve() -> None:
        if done.wait(after_s):
            return
        try:
            server = _Server(host, port, progress)
        except OSError:
            return
        with server:
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
            done.wait()
            server.shutdown()

    thread = threading.Thread(target=serve, name="waiting")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, host: str, port: int, progress: Progress) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.progress = progress
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Bind without looking the host's name up: a name server may be asked, and be away."""
        socketserver.TCPServer.server_bind(self)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 10.0  # for each read; arbitrary

    def _respond(self) -> None:
        self._discard_body()
        path = self.path.partition("?")[0]
        words = f"{self.server.progress.description}; try again"
        if path == "/healthz":
            self._send(200, "application/json", Health(status="ok").model_dump_json())
        elif path in ("/readyz", "/health"):
            health = Health(status="unavailable", detail=words)
            self._send(503, "application/json", health.model_dump_json())
        else:
            problem = StoreUnavailable(words).problem().model_dump(mode="json", by_alias=True)
            self._send(503, "application/problem+json", json.dumps(problem))

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _respond  # noqa: N815

    def _discard_body(self) -> None:
        """Read what is sent and drop it: to close on it would take the answer away, too."""
        length = self.headers.get("Content-Length", "")
        left = int(length) if middleware.is_within(length, middleware.MAX_BODY_BYTES) else 0
        while left > 0 and (read := self.rfile.read(min(left, _CHUNK_BYTES))):
            left -= len(read)

    def _send(self, status: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response_only(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Retry-After", str(StoreUnavailable.retry_after_s))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing: tokens stand in no log."""
