"""Answers in the service's place while its database is opened, if that takes long.

Until a migration is done, nothing else can be answered, but probes must find the process alive: a
kubelet kills it otherwise, and the migration starts again. The service takes the listening socket
over, so no connection is refused in between.
"""

from __future__ import annotations

import ipaddress
import json
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from knowledge_client.models import Health
from knowledge_service.errors import StoreUnavailable
from knowledge_service.routes import middleware
from knowledge_service.startup_progress import Progress

# A file without a migration to do is open earlier.
_DELAY_S = 1.0
_CHUNK_BYTES = 65_536


@dataclass
class Handover:
    """What the service takes over after the block.

    Attributes:
        listener: The listening socket, which the service closes; None if nothing listened, or if
            the host is a name, which may have several addresses.
    """

    listener: socket.socket | None = None


@contextmanager
def answering_meanwhile(
    host: str,
    port: int,
    progress: Progress,
    *,
    after_s: float = _DELAY_S,
    handover: Handover | None = None,
) -> Iterator[None]:
    """Answer on the service's address during the block, from `after_s` on.

    `/healthz` reports that the process is alive, other routes give 503 with the progress. If the
    address cannot be bound, the service itself reports that later.
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
            if handover is not None and _is_address(host):
                handover.listener = server.socket.dup()

    thread = threading.Thread(target=serve, name="startup-server")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 2048  # uvicorn's backlog: clients wait in it until the service accepts

    def __init__(self, host: str, port: int, progress: Progress) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.progress = progress
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Bind as asyncio does; without looking up the host's name, which may ask a name server."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
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
        """Read the body and drop it: closing before that would lose the response."""
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
        """Log nothing: tokens do not belong in logs."""
