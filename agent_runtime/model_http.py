"""The HTTP client for models: the key, and the bounds of every response.

The key is read from its file for each request, so a rotated Secret is used at once. It goes to the
configured address only: redirects are never followed, and proxies, `.netrc` and keys of the
environment are not used.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx2

from agent_runtime.errors import AgentError
from kais.agent_results import FailureClass

STREAM_BYTES: Final = 16 * 1024 * 1024
"""Maximum size of a streamed response; each token takes some hundred bytes."""
BODY_BYTES: Final = 1024 * 1024
"""Maximum size of a response that is not a stream, such as an error."""
KEY_BYTES: Final = 16 * 1024
CONNECT_S: Final = 10.0
SILENCE_S: Final = 120.0
"""Maximum time between two parts of a response."""
_KEY_HEADERS: Final = ("authorization", "x-api-key")
_MIN_MASKED: Final = 8
_MASK: Final = "[key]"
_STREAM: Final = "text/event-stream"
_FIRST_REDIRECT: Final = 300
_FIRST_ERROR: Final = 400


@dataclass
class ModelKey:
    """The key of the endpoint: read again for each request, and masked in texts."""

    file: Path | None
    _read: set[str] = field(default_factory=set)

    def read(self) -> str | None:
        """Return the key, or None if there is no file.

        Raises:
            AgentError: The file cannot be read, or is not a key.
        """
        if self.file is None:
            return None
        try:
            with self.file.open("rb") as stream:
                key = stream.read(KEY_BYTES).decode("ascii").strip()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as exc:
            raise self._unusable(f"cannot be read: {type(exc).__name__}") from exc
        if not key:
            return None
        if not key.isprintable():
            raise self._unusable("contains more than one line")
        if len(key) >= _MIN_MASKED:
            self._read.add(key)
        return key

    def register(self, secret: str) -> None:
        """Mask another secret, such as `Bearer TOKEN` in a header, and its last word alone."""
        for part in (secret, secret.rpartition(" ")[2]):
            if len(part) >= _MIN_MASKED:
                self._read.add(part)

    def mask(self, text: str) -> str:
        """Replace every key that was read, because an endpoint may repeat it."""
        for key in sorted(self._read, key=len, reverse=True):
            text = text.replace(key, _MASK)
        return text

    def _unusable(self, problem: str) -> AgentError:
        message = f"the key of the model in {self.file} {problem}"
        return AgentError(FailureClass.MODEL_UNAUTHORIZED, message)


class MaskingFilter(logging.Filter):
    """Masks the key in log records."""

    def __init__(self, key: ModelKey) -> None:
        super().__init__()
        self._key = key

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace the message of a record by its masked text."""
        record.msg, record.args = self._key.mask(record.getMessage()), None
        return True


class ModelTransport(httpx2.AsyncBaseTransport):
    """Adds the key to requests, and refuses what no model answers."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, key: ModelKey, *, key_header: str) -> None:
        self._inner = inner
        self._key = key
        self._key_header = key_header

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request.

        Raises:
            AgentError: The response is a redirect, encoded, or neither a stream nor JSON.
        """
        for header in _KEY_HEADERS:
            request.headers.pop(header, None)
        key = self._key.read()
        if key is not None:
            is_bearer = self._key_header == "authorization"
            request.headers[self._key_header] = f"Bearer {key}" if is_bearer else key
        request.headers["accept-encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        problem = _problem(response)
        if problem is not None:
            await response.aclose()
            raise problem
        is_stream = response.headers.get("content-type", "").startswith(_STREAM)
        limit = STREAM_BYTES if is_stream else BODY_BYTES
        assert isinstance(response.stream, httpx2.AsyncByteStream)  # noqa: S101 - of this transport
        response.stream = _BoundedStream(response.stream, limit)
        return response

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, limit: int) -> None:
        self._inner = inner
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            if size > self._limit:
                raise AgentError(
                    FailureClass.BAD_ANSWER,
                    f"the endpoint of the model answered with more than {self._limit} bytes",
                    is_charged=True,
                )
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


def create_client(
    key: ModelKey, *, key_header: str, transport: httpx2.AsyncBaseTransport | None = None
) -> httpx2.AsyncClient:
    """Create the client; tests pass their own transport."""
    inner = transport or httpx2.AsyncHTTPTransport(trust_env=False)
    return httpx2.AsyncClient(
        transport=ModelTransport(inner, key, key_header=key_header),
        timeout=httpx2.Timeout(SILENCE_S, connect=CONNECT_S),
        follow_redirects=False,
        trust_env=False,
    )


def _problem(response: httpx2.Response) -> AgentError | None:
    status = response.status_code
    if _FIRST_REDIRECT <= status < _FIRST_ERROR:
        return AgentError(
            FailureClass.MODEL_REFUSED,
            f"the endpoint of the model answers with a redirect (HTTP {status}), which is not "
            "followed; set spec.mind.baseUrl to the final address",
        )
    if response.headers.get("content-encoding", "identity") != "identity":
        return AgentError(
            FailureClass.BAD_ANSWER, "the endpoint of the model compresses its answer unasked"
        )
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if status < _FIRST_REDIRECT and kind not in (_STREAM, "application/json"):
        return AgentError(
            FailureClass.BAD_ANSWER,
            f"the endpoint of the model answers with {kind or 'no content type'} instead of an "
            "event stream; check spec.mind.baseUrl",
        )
    return None
