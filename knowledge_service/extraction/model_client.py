"""Calls a model over HTTP: chat completions of OpenAI-compatible servers, or Anthropic's messages.

One call is one request: repeats are durable, and belong to the job. Redirects are not followed, and
an answer is read up to a bound.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import httpx

from knowledge_service.domain import extraction_prompt
from knowledge_service.extraction.settings import ModelEndpoint

_TIMEOUT_S = 60.0
_MAX_BYTES = 1024 * 1024
_MAX_DETAIL = 200
_TOOL = "state_facts"
_TEMPORARY = frozenset({408, 409, 425, 429})
Message = tuple[str, str]
"""A role, `user` or `assistant`, and a text."""


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
    """Sends calls; `transport` and `timeout_s` are for tests."""

    def __init__(
        self, *, transport: httpx.BaseTransport | None = None, timeout_s: float = _TIMEOUT_S
    ) -> None:
        self._http = httpx.Client(
            transport=transport, timeout=timeout_s, follow_redirects=False, trust_env=False
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def call(self, endpoint: ModelEndpoint, messages: Sequence[Message]) -> ModelAnswer:
        """Send the fixed instructions and the messages; return the answer.

        Raises:
            ModelCallFailed: there is no answer.
        """
        path, headers, body = _request(endpoint, messages, _key(endpoint))
        try:
            with self._http.stream(
                "POST", endpoint.url + path, headers=headers, json=body
            ) as response:
                content = _read(response, endpoint)
        except httpx.HTTPError as exc:
            is_unsent = isinstance(exc, httpx.ConnectError | httpx.ConnectTimeout)
            raise ModelCallFailed(
                f"the endpoint of the model {endpoint.name} does not answer: {type(exc).__name__}",
                is_temporary=True,
                was_answered=is_unsent,
            ) from exc
        except httpx.InvalidURL as exc:
            raise ModelCallFailed(
                f"the url of the model {endpoint.name} is invalid: {exc}",
                is_temporary=False,
                was_answered=True,
            ) from exc
        _require_success(response, content, endpoint)
        return _answer(endpoint, content)


def _key(endpoint: ModelEndpoint) -> str:
    if endpoint.key_file is None:
        return ""
    try:
        return endpoint.key_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise ModelCallFailed(
            f"the key of the model {endpoint.name} cannot be read from {endpoint.key_file}; "
            "check the mounted Secret",
            is_temporary=True,
            was_answered=True,
        ) from exc


def _request(
    endpoint: ModelEndpoint, messages: Sequence[Message], key: str
) -> tuple[str, dict[str, str], dict[str, Any]]:
    turns = [{"role": role, "content": text} for role, text in messages]
    if endpoint.api == "anthropic":
        headers = {"x-api-key": key, "anthropic-version": "2023-06-01"}
        tool = {
            "name": _TOOL,
            "description": "State the facts.",
            "input_schema": extraction_prompt.SCHEMA,
        }
        return (
            "/v1/messages",
            headers,
            {
                "model": endpoint.model,
                "max_tokens": endpoint.max_tokens,
                "system": extraction_prompt.INSTRUCTIONS,
                "messages": turns,
                "tools": [tool],
                "tool_choice": {"type": "tool", "name": _TOOL},
            },
        )
    schema = {"name": "facts", "strict": True, "schema": extraction_prompt.SCHEMA}
    return (
        "/chat/completions",
        {"Authorization": f"Bearer {key}"} if key else {},
        {
            "model": endpoint.model,
            "max_completion_tokens": endpoint.max_tokens,
            "messages": [{"role": "system", "content": extraction_prompt.INSTRUCTIONS}, *turns],
            "response_format": {"type": "json_schema", "json_schema": schema},
        },
    )


def _read(response: httpx.Response, endpoint: ModelEndpoint) -> bytes:
    content = bytearray()
    for chunk in response.iter_bytes():
        content += chunk
        if len(content) > _MAX_BYTES:
            raise ModelCallFailed(
                f"the answer of the model {endpoint.name} exceeds {_MAX_BYTES // 1024} KiB",
                is_temporary=False,
            )
    return bytes(content)


def _require_success(response: httpx.Response, content: bytes, endpoint: ModelEndpoint) -> None:
    status = response.status_code
    if status == HTTPStatus.OK:
        return
    is_temporary = status in _TEMPORARY or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    raise ModelCallFailed(
        f"the endpoint of the model {endpoint.name} answers {status}{_detail(content)}",
        is_temporary=is_temporary,
        was_answered=True,
        retry_after_s=_retry_after_s(response.headers),
    )


def _detail(content: bytes) -> str:
    """Return the message of an error in the form of either API, on one line."""
    try:
        message = json.loads(content)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        return ""
    return f": {' '.join(str(message).split())[:_MAX_DETAIL]}"


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    value = headers.get("retry-after", "")
    return float(value) if value.isascii() and value.isdecimal() else None


def _answer(endpoint: ModelEndpoint, content: bytes) -> ModelAnswer:
    try:
        body = json.loads(content)
        if endpoint.api == "anthropic":
            return _from_anthropic(body)
        return _from_openai(body)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as exc:
        raise ModelCallFailed(
            f"the endpoint of the model {endpoint.name} answers 200 with something that is no "
            "answer of its API; check the url",
            is_temporary=True,
        ) from exc


def _from_openai(body: Mapping[str, Any]) -> ModelAnswer:
    choice, usage = body["choices"][0], body.get("usage") or {}
    return ModelAnswer(
        str(choice["message"].get("content") or ""),
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
        "".join(tools or parts),
        _count(usage.get("input_tokens")),
        _count(usage.get("output_tokens")),
        is_cut=body.get("stop_reason") == "max_tokens",
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
