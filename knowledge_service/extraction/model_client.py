"""Calls a model over HTTP: chat completions of OpenAI-compatible servers, or Anthropic's messages.

One call is one request: repeats are durable, and belong to the job. Redirects are not followed, an
answer is read up to a bound of bytes, and the whole call has a bound of time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import httpx

from kais.encodable_text import encodable
from knowledge_client.models import extractions
from knowledge_service.domain import redaction
from knowledge_service.extraction.call_deadline import CallDeadline
from knowledge_service.extraction.settings import ModelEndpoint

TIMEOUT_S = extractions.MODEL_SILENCE_SECONDS
# A bound of the whole call: an endpoint that sends single bytes never exceeds the read timeout.
DEADLINE_S = extractions.MODEL_ANSWER_SECONDS
# The deadline knows the socket of a new connection only; a call takes seconds anyway.
_NEW_CONNECTIONS = httpx.Limits(max_keepalive_connections=0)
_MAX_BYTES = 1024 * 1024
_MAX_DETAIL = 200
# The key file is read for each call, so a rejected key may have been replaced at the next call.
_KEY_REFUSED = frozenset({401, 403})
_TEMPORARY = frozenset({408, 409, 425, 429}) | _KEY_REFUSED
# No model reads or writes this much in one call; a larger number is not a count of tokens.
_MAX_TOKENS = 100_000_000
Message = tuple[str, str]
"""A role, `user` or `assistant`, and a text."""


@dataclass(frozen=True)
class Prompt:
    """The fixed part of a call: the instructions, and the schema of the answer.

    `answer_name` names what the model states, such as `facts`.
    """

    instructions: str
    schema: Mapping[str, Any]
    answer_name: str


@dataclass(frozen=True)
class ModelAnswer:
    """The text of an answer; tokens are None if the endpoint does not count them."""

    text: str
    input_tokens: int | None
    output_tokens: int | None
    is_cut: bool = False


class ModelCallFailed(Exception):
    """A call gave no answer.

    Attributes:
        is_temporary: whether a later call may succeed.
        was_answered: whether the endpoint refused the call, which then costs nothing.
    """

    def __init__(
        self,
        message: str,
        *,
        is_temporary: bool,
        was_answered: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.is_temporary = is_temporary
        self.was_answered = was_answered
        self.retry_after_s = retry_after_s


class ModelClient:
    """Sends calls; `transport`, `timeout_s`, `deadline_s` and `monotonic` are for tests."""

    def __init__(
        self,
        *,
        transport: httpx.BaseTransport | None = None,
        timeout_s: float = TIMEOUT_S,
        deadline_s: float = DEADLINE_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._deadline_s = deadline_s
        self._http = httpx.Client(
            transport=transport,
            timeout=timeout_s,
            follow_redirects=False,
            trust_env=False,
            limits=_NEW_CONNECTIONS,
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def call(
        self, endpoint: ModelEndpoint, prompt: Prompt, messages: Sequence[Message]
    ) -> ModelAnswer:
        """Send the prompt and the messages; return the answer.

        Raises:
            ModelCallFailed: there is no answer.
        """
        key = _key(endpoint)
        path, headers, body = _request(endpoint, prompt, messages, key)
        ends_at_s = self._monotonic() + self._deadline_s
        deadline = CallDeadline(self._deadline_s)
        try:
            with (
                deadline,
                self._http.stream(
                    "POST",
                    endpoint.url + path,
                    headers=headers,
                    json=body,
                    extensions={"trace": deadline.trace},
                ) as response,
            ):
                content = self._read(response, endpoint, ends_at_s)
        except httpx.HTTPError as exc:
            is_unsent = isinstance(exc, httpx.ConnectError | httpx.ConnectTimeout)
            if deadline.is_over:
                raise self._too_late(endpoint, is_unsent=is_unsent) from exc
            # Only messages of ConnectError are known to quote nothing of the request.
            cause = f" ({exc})"[:_MAX_DETAIL] if isinstance(exc, httpx.ConnectError) else ""
            raise ModelCallFailed(
                f"the endpoint of the model {endpoint.name} does not answer: "
                f"{type(exc).__name__}{cause}",
                is_temporary=True,
                was_answered=is_unsent,
            ) from exc
        except httpx.InvalidURL as exc:
            raise ModelCallFailed(
                f"the url of the model {endpoint.name} is invalid: {exc}",
                is_temporary=False,
                was_answered=True,
            ) from exc
        _require_success(response, content, endpoint, key)
        return _answer(endpoint, content)

    def _read(self, response: httpx.Response, endpoint: ModelEndpoint, ends_at_s: float) -> bytes:
        content = bytearray()
        for chunk in response.iter_bytes():
            content += chunk
            if len(content) > _MAX_BYTES:
                raise ModelCallFailed(
                    f"the answer of the model {endpoint.name} exceeds {_MAX_BYTES // 1024} KiB",
                    is_temporary=False,
                )
            self._require_time(endpoint, ends_at_s)
        # A body without a length also ends when the deadline shuts its connection down.
        self._require_time(endpoint, ends_at_s)
        return bytes(content)

    def _require_time(self, endpoint: ModelEndpoint, ends_at_s: float) -> None:
        if self._monotonic() > ends_at_s:
            raise self._too_late(endpoint)

    def _too_late(self, endpoint: ModelEndpoint, *, is_unsent: bool = False) -> ModelCallFailed:
        return ModelCallFailed(
            f"the answer of the model {endpoint.name} did not end within {self._deadline_s:g} s",
            is_temporary=True,
            was_answered=is_unsent,
        )


def _key(endpoint: ModelEndpoint) -> str:
    if endpoint.key_file is None:
        return ""
    try:
        key = endpoint.key_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise ModelCallFailed(
            f"the key of the model {endpoint.name} cannot be read from {endpoint.key_file}; "
            "check the mounted Secret",
            is_temporary=True,
            was_answered=True,
        ) from exc
    if not (key.isascii() and key.isprintable()):
        raise ModelCallFailed(
            f"the key of the model {endpoint.name} in {endpoint.key_file} is no single line of "
            "ASCII; check the mounted Secret",
            is_temporary=True,
            was_answered=True,
        )
    return key


def _request(
    endpoint: ModelEndpoint, prompt: Prompt, messages: Sequence[Message], key: str
) -> tuple[str, dict[str, str], dict[str, Any]]:
    turns = [{"role": role, "content": text} for role, text in messages]
    if endpoint.api == "anthropic":
        headers = {"x-api-key": key, "anthropic-version": "2023-06-01"}
        tool = {
            "name": f"state_{prompt.answer_name}",
            "description": f"State the {prompt.answer_name}.",
            "input_schema": prompt.schema,
        }
        return (
            "/v1/messages",
            headers,
            {
                "model": endpoint.model,
                "max_tokens": endpoint.max_tokens,
                "system": prompt.instructions,
                "messages": turns,
                "tools": [tool],
                "tool_choice": {"type": "tool", "name": tool["name"]},
            },
        )
    schema = {"name": prompt.answer_name, "strict": True, "schema": prompt.schema}
    return (
        "/chat/completions",
        {"Authorization": f"Bearer {key}"} if key else {},
        {
            "model": endpoint.model,
            "max_completion_tokens": endpoint.max_tokens,
            "messages": [{"role": "system", "content": prompt.instructions}, *turns],
            "response_format": {"type": "json_schema", "json_schema": schema},
        },
    )


def _require_success(
    response: httpx.Response, content: bytes, endpoint: ModelEndpoint, key: str
) -> None:
    status = response.status_code
    if status == HTTPStatus.OK:
        return
    is_temporary = status in _TEMPORARY or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    raise ModelCallFailed(
        f"the endpoint of the model {endpoint.name} answers {status}"
        f"{_detail(content, key)}{_next_step(status, endpoint)}",
        is_temporary=is_temporary,
        was_answered=True,
        retry_after_s=_retry_after_s(response.headers),
    )


def _detail(content: bytes, key: str) -> str:
    """Return the message of an error in the form of either API, on one line, without secrets."""
    try:
        message = json.loads(content)["error"]["message"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    text = str(message).replace(key, redaction.MASK) if key else str(message)
    text = "".join(each for each in text if each.isprintable() or each.isspace())
    return f": {redaction.mask(' '.join(text.split()))[:_MAX_DETAIL]}"


def _next_step(status: int, endpoint: ModelEndpoint) -> str:
    """Return advice about a status that only an administrator can fix."""
    if status in _KEY_REFUSED and endpoint.key_file is None:
        return "; it has no key: set its secretKey in knowledge.extraction.models of the chart"
    if status in _KEY_REFUSED:
        return (
            f"; check the key in {endpoint.key_file}, which comes from "
            "knowledge.extraction.secretName of the chart"
        )
    is_redirect = HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST
    if status == HTTPStatus.NOT_FOUND or is_redirect:
        return "; check its url and model in knowledge.extraction.models of the chart"
    return ""


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    value = headers.get("retry-after", "")
    return float(value) if value.isascii() and value.isdecimal() else None


def _answer(endpoint: ModelEndpoint, content: bytes) -> ModelAnswer:
    try:
        body = json.loads(content)
        if endpoint.api == "anthropic":
            return _from_anthropic(body)
        return _from_openai(body)
    except (
        ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError,
    ) as exc:  # fmt: skip
        raise ModelCallFailed(
            f"the endpoint of the model {endpoint.name} answers 200 with something that is no "
            "answer of its API; check the url",
            is_temporary=True,
        ) from exc


def _from_openai(body: Mapping[str, Any]) -> ModelAnswer:
    choice, usage = body["choices"][0], body.get("usage") or {}
    return ModelAnswer(
        _text(choice["message"].get("content")),
        _count(usage.get("prompt_tokens")),
        _count(usage.get("completion_tokens")),
        is_cut=choice.get("finish_reason") == "length",
    )


def _from_anthropic(body: Mapping[str, Any]) -> ModelAnswer:
    usage = body.get("usage") or {}
    parts = [
        json.dumps(block["input"]) if block["type"] == "tool_use" else str(block.get("text", ""))
        for block in body["content"]
    ]
    tools = [
        part
        for part, block in zip(parts, body["content"], strict=True)
        if block["type"] == "tool_use"
    ]
    return ModelAnswer(
        _text("".join(tools or parts)),
        _count(usage.get("input_tokens")),
        _count(usage.get("output_tokens")),
        is_cut=body.get("stop_reason") == "max_tokens",
    )


def _text(value: object) -> str:
    return encodable(str(value or ""))


def _count(value: object) -> int | None:
    """Return a number of tokens; None if it cannot be one."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= _MAX_TOKENS else None
