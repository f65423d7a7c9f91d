"""What the sync and the async client share: headers, the token, and the tries of one call."""

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
    """What is known of the service: the level of the interface that its last answer named."""

    level: int | None = None

    def record_response(self, headers: Mapping[str, str]) -> None:
        """Note the level; a service that names none is from before levels."""
        value = headers.get(base_model.API_LEVEL_HEADER, "")
        self.level = int(value) if value.isdecimal() else 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Connection:
    """Where the service is and how to speak to it."""

    url: str
    token: str | None = dataclasses.field(repr=False)
    token_file: str | None
    timeout_s: float
    retries: RetryPolicy
    peer: Peer = dataclasses.field(default_factory=Peer)

    def headers(self, request: Request[Any]) -> dict[str, str]:
        """Make the headers of one try; reads the token file, which the kubelet renews."""
        headers = {"Accept": "application/json, application/problem+json"}
        headers |= dict(request.headers)
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
) -> Connection:
    """Fill what is not given from the environment.

    A token or token file given here is never mixed with the environment's.

    Raises:
        InvalidRequest: no address is given and KNOWLEDGE_SERVICE_URL is not set.
    """
    configured = settings.from_environment()
    address = url or configured.url
    if not address:
        raise errors.InvalidRequest(
            "no address of a knowledge service; set KNOWLEDGE_SERVICE_URL or pass url"
        )
    if token is None and token_file is None:
        token_file = configured.token_file
    return Connection(
        url=address.rstrip("/"),
        token=token,
        token_file=token_file,
        timeout_s=timeout_s,
        retries=retries,
    )


class CallRetries(Generic[requests.Response_co]):
    """The tries of one call: the same request, the same key, until it works or patience ends."""

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
        """Tell whether the service's level decides and no answer has named it yet."""
        return self.request.level[0] > 1 and self._connection.peer.level is None

    def level_probe_arguments(self) -> dict[str, Any]:
        """Give httpx's arguments for a request whose answer names the level, whatever it is."""
        timeout_s = self._connection.timeout_s
        return {"method": "GET", "url": f"{self._connection.url}/healthz", "timeout": timeout_s}

    def record_response(self, headers: Mapping[str, str]) -> None:
        """Note what an answer says of the service."""
        self._connection.peer.record_response(headers)

    def check_level(self) -> None:
        """Let pass what the service knows.

        Raises:
            Unsupported: the service is older than a field of the request.
        """
        (needed, field), level = self.request.level, self._connection.peer.level
        if needed > (level or 1):
            raise errors.Unsupported(
                f"{self.description}: {field} needs level {needed} of the interface, the service at"
                f" {self._connection.url} has level {level}; upgrade it or leave the field out"
            )

    def request_arguments(self) -> dict[str, Any]:
        """Give httpx's arguments for the next try, which may not outlast the deadline."""
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
        """Give httpx's arguments for an answer that goes on; silence of a minute ends it."""
        return self.request_arguments() | {
            "timeout": httpx.Timeout(self._connection.timeout_s, read=60.0)
        }

    def pause_s(self, failure: errors.KnowledgeError) -> float:
        """Say how long to wait before the next try.

        Raises:
            KnowledgeError: `failure` itself, when there is no next try.
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
