"""A developer: a Service cell that answers `POST /review` for its one aspect."""

from __future__ import annotations

import json
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from code_review_team import aspects
from code_review_team.findings import SourceFile

PORT = 8080
LANGUAGE = "python"
_BODY_BYTES = 1 << 20  # a change as a whole; environment variables hold no more anyway


def review_files(aspect: str, body: Any) -> dict[str, Any]:
    """Review the files of a request.

    Raises:
        ValueError: the body is not `{"language": text, "files": [{"path", "text"}]}`.
    """
    try:
        language = str(body["language"])
        files = [SourceFile(str(item["path"]), str(item["text"])) for item in body["files"]]
    except (KeyError, TypeError) as exc:
        raise ValueError(f"expected language and files with path and text: {exc!r}") from exc
    if language != LANGUAGE:
        return {"findings": [], "note": f"{aspect} reads {LANGUAGE} only, not {language}"}
    findings = [finding for source in files for finding in aspects.review(aspect, source)]
    return {"findings": [finding.to_json() for finding in findings], "note": ""}


class Handler(BaseHTTPRequestHandler):
    """Answers one request; `aspect` is set by `serve`."""

    aspect: ClassVar[str] = ""

    def do_GET(self) -> None:
        """Return the aspect of this developer."""
        self._send(HTTPStatus.OK, {"aspect": self.aspect})

    def do_POST(self) -> None:
        """Review a change."""
        size = int(self.headers.get("Content-Length") or 0)
        if size > _BODY_BYTES:
            self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": f"{size} bytes are too many"})
            return
        try:
            response_body = review_files(self.aspect, json.loads(self.rfile.read(size)))
        except ValueError as exc:
            self._send(HTTPStatus.BAD_REQUEST, {"error": str(exc)})
            return
        self._send(HTTPStatus.OK, response_body)

    def _send(self, status: HTTPStatus, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def server(aspect: str, *, port: int = PORT) -> ThreadingHTTPServer:
    """Create the server of one developer; port 0 means any free port.

    Raises:
        KeyError: there is no such aspect.
    """
    if aspect not in aspects.ASPECTS:
        raise KeyError(f"no developer looks at {aspect}; known: {', '.join(aspects.ASPECTS)}")
    handler = type("AspectHandler", (Handler,), {"aspect": aspect})
    return ThreadingHTTPServer(("", port), handler)
