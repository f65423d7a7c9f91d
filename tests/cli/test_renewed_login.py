"""A login that is renewed while other requests of the same command are answered."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from kais_cli.cluster.kubernetes_cluster import KubernetesCluster
from kais_cli.ports import LogOptions

ANSWER_S = 5  # seconds within which the other request has to be answered


class Server(ThreadingHTTPServer):
    """An API server that rejects a login once, while it writes the log of the pod `x`."""

    daemon_threads = True

    def __init__(self) -> None:
        self.is_renewed = threading.Event()
        self.is_expired = True
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        if self.path.startswith("/api/v1/namespaces/demo/pods/x/log"):
            self.send_response(200)
            self.send_header("Content-Length", str(len("one\ntwo\n")))
            self.end_headers()
            self.wfile.write(b"one\n")
            self.server.is_renewed.wait(ANSWER_S)
            self.wfile.write(b"two\n")
            return
        status, self.server.is_expired = (401 if self.server.is_expired else 200), False
        body = json.dumps({"items": []}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Write nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_log_goes_on_while_another_request_renews_the_login(
    server: Server, tmp_path: Path
) -> None:
    content = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [
            {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        ],
        "users": [{"name": "u", "user": {"token": "expired"}}],
    }
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(content))
    cluster = KubernetesCluster(str(path))
    pieces = cluster.logs("demo", "x", container="cell", options=LogOptions(10, follow=True))
    assert next(pieces) == "one\n"
    assert cluster.list("Pod", "demo") == []
    server.is_renewed.set()
    assert list(pieces) == ["two\n"]
    cluster.close()
