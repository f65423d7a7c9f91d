"""A receiver of OTLP over HTTP: decodes the protobuf messages that an exporter sends."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass
class Receiver:
    """What was received; the bodies are as they were before they were decoded."""

    url: str = ""
    bodies: list[bytes] = field(default_factory=list)

    @property
    def spans(self) -> list[Any]:
        """The spans in the order of their arrival."""
        return [
            span
            for request in self._requests()
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def resources(self) -> list[dict[str, Any]]:
        """The attributes of the processes that sent spans."""
        return [
            attributes(resource.resource)
            for request in self._requests()
            for resource in request.resource_spans
        ]

    def named(self, prefix: str) -> list[Any]:
        """The spans whose name begins so."""
        return [span for span in self.spans if span.name.startswith(prefix)]

    def _requests(self) -> Iterator[Any]:
        for body in self.bodies:
            request = ExportTraceServiceRequest()
            request.ParseFromString(body)
            yield request


def attributes(owner: Any) -> dict[str, Any]:
    """The attributes of a span or a resource, by their names."""
    return {
        item.key: getattr(item.value, item.value.WhichOneof("value")) for item in owner.attributes
    }


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Receive traces during the block."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            is_known = self.path == "/v1/traces"
            if is_known:
                receiver.bodies.append(body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200 if is_known else 404)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Log nothing: a test asserts what was received."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
