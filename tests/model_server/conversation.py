"""A request to a model, as both APIs state it: instructions, messages and tools."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_FRAME = re.compile(r"<knowledge\b[^>]*>(.*?)</knowledge>", re.DOTALL)
_BYTES_PER_TOKEN = 4


@dataclass(frozen=True)
class Message:
    """One message: its role (user, assistant or tool) and all its text, calls included."""

    role: str
    text: str


@dataclass(frozen=True)
class Conversation:
    """A request without what is particular to one API."""

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[str, ...]
    is_streaming: bool
    has_stream_usage: bool

    @property
    def turn(self) -> int:
        """Which answer of the model is due, from 1."""
        return 1 + sum(message.role == "assistant" for message in self.messages)

    @property
    def text(self) -> str:
        """All messages, without the instructions."""
        return "\n".join(message.text for message in self.messages)

    @property
    def knowledge(self) -> str:
        """The text inside the knowledge frames, which only data may carry."""
        framed = (_FRAME.findall(m.text) for m in self.messages if m.role != "assistant")
        return "\n".join(text for found in framed for text in found)

    @property
    def input_tokens(self) -> int:
        """The tokens of the request when a script says none: a quarter of its bytes."""
        return tokens(self.system + self.text)


def tokens(text: str) -> int:
    """Return a number of tokens that depends on the size alone, so that sums are exact."""
    return -(-len(text.encode()) // _BYTES_PER_TOKEN)


def from_openai(body: Mapping[str, Any]) -> Conversation:
    """Read a request for a chat completion."""
    system, messages = [], []
    for message in body["messages"]:
        text = "\n".join(_texts(message))
        if message["role"] in ("system", "developer"):
            system.append(text)
        else:
            messages.append(Message(message["role"], text))
    options = body.get("stream_options") or {}
    return Conversation(
        model=body["model"],
        system="\n".join(system),
        messages=tuple(messages),
        tools=tuple(tool["function"]["name"] for tool in body.get("tools") or ()),
        is_streaming=bool(body.get("stream")),
        has_stream_usage=bool(options.get("include_usage")),
    )


def from_anthropic(body: Mapping[str, Any]) -> Conversation:
    """Read a request for a message; a result of a tool becomes a message of the role tool."""
    messages = []
    for message in body["messages"]:
        blocks = _blocks(message["content"])
        is_result = any(block.get("type") == "tool_result" for block in blocks)
        role = "tool" if is_result else message["role"]
        messages.append(Message(role, "\n".join(_texts(message))))
    return Conversation(
        model=body["model"],
        system="\n".join(block.get("text", "") for block in _blocks(body.get("system") or "")),
        messages=tuple(messages),
        tools=tuple(tool["name"] for tool in body.get("tools") or ()),
        is_streaming=bool(body.get("stream")),
        has_stream_usage=True,
    )


def _texts(message: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts of a message, its calls of tools and their results."""
    yield from _content_texts(message.get("content") or "")
    for call in message.get("tool_calls") or ():
        yield f"{call['function']['name']} {call['function']['arguments']}"


def _content_texts(content: Any) -> Iterator[str]:
    for block in _blocks(content):
        if "text" in block:
            yield block["text"]
        elif block.get("type") == "tool_use":
            yield f"{block['name']} {block['input']}"
        elif "content" in block:
            yield from _content_texts(block["content"])


def _blocks(content: Any) -> Sequence[Mapping[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
