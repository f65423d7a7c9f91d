"""The common part of both clients: address, headers, the token, and the retries of one call."""

from __future__ import annotations

import dataclasses
import secrets
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

import httpx

from knowledge_client import base_model, errors, requests, settings
from knowledge_client import retries as backoff

if TYPE_CHECKING:
    from collections.abc import Mapping

    from knowledge_client.requests import Request, Response_co
    from knowledge_client.retries import RetryPolicy


@dataclasses.dataclass
class Peer:
    """The service at the other end: its API level, from its last response."""

    level: int | None = None

    def record_response(self, headers: Mapping[str, str]) -> None:
        """Store the API level of a response; level 1 when the header is missing."""
        value = headers.get(base_model.API_LEVEL_HEADER, "")
        self.level = int(value) if value.isdecimal() else 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Connection:
    """The address of the service, and how to authenticate and retry."""

    url: str
    token: str | None = dataclasses.field(repr=False)
    token_file: str | None
    timeout_s: float
    retries: RetryPolicy
    as_agent: bool = False
    peer: Peer = dataclasses.field(default_factory=Peer)

    def headers(self, request: Request[Any]) -> dict[str, str]:
        """Return the headers of one attempt; reads the token file again, which may be renewed."""
        headers = {"Accept": "application/json, application/problem+json"}
        headers |= dict(request.headers)
        if self.as_agent:
            headers[base_model.SPEAK_AS_HEADER] = base_model.SPEAK_AS_AGENT
        token = self.token or self._token_from_file()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if request.idempotency_key:
            headers["Idempotency-Key"] = request.idempotency_key
        return headers

    def _token_from_file(self) -> str | None:
        if self.token_file is None:
            return None
        try:
            return Path(self.token_file).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as exc:
            raise errors.Unauthenticated(
                f"cannot read the token file {self.token_file}: {exc};"
                " check KNOWLEDGE_TOKEN_FILE and the pod's projected volume"
            ) from exc


def connect(
    url: str | None,
    *,
    token: str | None,
    token_file: str | None,
    timeout_s: float,
    retries: RetryPolicy,
    as_agent: bool = False,
) -> Connection:
    """Create a connection, with missing arguments taken from the environment.

    If you pass a token or a token file, the one of the environment is not used.

    Raises:
        InvalidRequest: `url` is missing and KNOWLEDGE_SERVICE_URL is not set.
    """
    configured = settings.from_environment()
    address = url or configured.url
    if not address:
        raise errors.InvalidRequest(
            "the address of the knowledge service is missing; set KNOWLEDGE_SERVICE_URL or pass url"
        )
    if token is None and token_file is None:
        token_file = configured.token_file
    return Connection(
        url=address.rstrip("/"),
        token=token,
        token_file=token_file,
        timeout_s=timeout_s,
        retries=retries,
        as_agent=as_agent,
    )


class CallRetries(Generic[requests.Response_co]):
    """The attempts of one call: the same request with the same idempotency key each time."""

    def __init__(self, connection: Connection, request: Request[Response_co]) -> None:
        if request.needs_key and request.idempotency_key is None:
            request = dataclasses.replace(request, idempotency_key=uuid.uuid4().hex)
        self.request = request
        self.description = f"{request.method} {request.path}"
        self._connection = connection
        self._policy = backoff.NO_RETRIES if request.is_probe else connection.retries
        self._started = time.monotonic()
        self._attempts = 0

    def must_probe_level(self) -> bool:
        """Return whether a request needs a level above 1 and that of the service is unknown."""
        return self.request.level[0] > 1 and self._connection.peer.level is None

    def level_probe_arguments(self) -> dict[str, Any]:
        """Return the httpx arguments of a request whose response states the API level."""
        timeout_s = self._connection.timeout_s
        return {"method": "GET", "url": f"{self._connection.url}/healthz", "timeout": timeout_s}

    def record_response(self, headers: Mapping[str, str]) -> None:
        """Store what the headers of a response state about the service."""
        self._connection.peer.record_response(headers)

    def check_level(self) -> None:
        """Require that the service supports all fields of the request.

        Raises:
            Unsupported: The service is older than a field of the request.
        """
        (needed, field), level = self.request.level, self._connection.peer.level
        if needed > (level or 1):
            raise errors.Unsupported(
                f"{self.description}: {field} needs level {needed} of the interface, the service at"
                f" {self._connection.url} has level {level}; upgrade it or leave the field out"
            )

    def request_arguments(self) -> dict[str, Any]:
        """Return the httpx arguments of the next attempt; its timeout ends at the deadline."""
        remaining_s = self._policy.deadline_s - self._elapsed_s()
        timeout_s = self._connection.timeout_s
        if self._attempts:
            timeout_s = min(timeout_s, max(remaining_s, 0.1))
        self._attempts += 1
        return {
            "method": self.request.method,
            "url": self._connection.url + self.request.path,
            "params": list(self.request.params) or None,
            "json": self.request.json,
            "headers": self._connection.headers(self.request),
            "timeout": timeout_s,
        }

    def stream_arguments(self) -> dict[str, Any]:
        """Return the httpx arguments of a stream, which times out after a minute without data."""
        return self.request_arguments() | {
            "timeout": httpx.Timeout(self._connection.timeout_s, read=60.0)
        }

    def pause_s(self, failure: errors.KnowledgeError) -> float:
        """Return the delay before the next attempt in seconds.

        Raises:
            KnowledgeError: `failure` itself, when it must not be retried.
        """
        pause = backoff.retry_delay_s(
            self._policy,
            failure,
            attempts=self._attempts,
            elapsed_s=self._elapsed_s(),
            jitter=secrets.SystemRandom().random(),
        )
        if pause is None:
            raise failure
        return pause

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._started
