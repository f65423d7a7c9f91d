"""A server that answers each request for an object alike: for what a real S3 server does not do."""

from __future__ import annotations

import re
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_OPENSSL = """\
req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority \
 -keyout authority.key -out authority.pem
req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout server.key -out server.csr
x509 -req -in server.csr -CA authority.pem -CAkey authority.key -CAcreateserial -days 2 \
 -extfile names -out server.pem
"""


@dataclass
class Answers:
    """A server that runs; `requests` has the method and the size of each answer."""

    url: str
    requests: list[tuple[str, int]] = field(default_factory=list)

    def variables(self) -> dict[str, str]:
        """The environment of a client."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": str(self.url.startswith("http:")).lower(),
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any",
        }


@contextmanager
def serve(
    content: bytes, *, status: int = 200, certificates: Path | None = None
) -> Iterator[Answers]:
    """Serve one content at every path; with a folder for `certificates`, over TLS."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            first, last = (int(asked[1]), int(asked[2])) if asked else (0, len(content) - 1)
            part = content[first : last + 1]
            self.send_response(206 if asked else status)
            if asked:
                self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
            self.send_header("ETag", '"1"')
            self.send_header("Last-Modified", "Mon, 05 Jan 2026 10:00:00 GMT")
            self.send_header("Content-Length", str(len(part)))
            self.end_headers()
            answers.requests.append((self.command, len(part)))
            if self.command == "GET":
                self.wfile.write(part)

        do_HEAD = do_GET  # noqa: N815 - the name that http.server looks for

        def log_message(self, *_: object) -> None:
            """Write no line for each request."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    scheme = "http"
    if certificates is not None:
        scheme = "https"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*_server_certificate(certificates))
        server.socket = context.wrap_socket(server.socket, server_side=True)
    answers = Answers(f"{scheme}://localhost:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield answers
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _server_certificate(folder: Path) -> tuple[Path, Path]:
    (folder / "names").write_text("subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n")
    for arguments in _OPENSSL.splitlines():
        subprocess.run(["openssl", *arguments.split()], cwd=folder, check=True, capture_output=True)
    return folder / "server.pem", folder / "server.key"
