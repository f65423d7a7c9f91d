"""Scripts of the model server: YAML rules that match a request and say what the model answers.

The first rule that matches and is not used up answers. A condition that is left out matches
everything; texts are compared without regard to case.

    rules:
      - name: ask before working
        when: {model: "house-*", system: reviewer, turn: 1, knowledge_lacks: [port 8443]}
        reply:
          tool_calls: [{name: recall, arguments: {query: "which port"}}]
          usage: {input: 120, output: 15}
      - name: overloaded once
        when: {times: 1}
        reply: {status: 429, headers: {Retry-After: "1"}}
"""

from __future__ import annotations

import fnmatch
import re
from typing import Any

import msgspec
import yaml

from tests.model_server.conversation import Conversation


class When(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Conditions of a rule, all of which must hold.

    `turn` counts the model's answers: 1 for a request without an earlier one. `contains` and
    `lacks` look at all messages, `last` at the last one, `knowledge_contains` and `knowledge_lacks`
    only at the text inside `<knowledge …>` frames of the messages.
    """

    model: str = "*"
    system: str = ""
    turn: int | None = None
    last: str = ""
    last_role: str = ""
    contains: list[str] = []
    lacks: list[str] = []
    knowledge_contains: list[str] = []
    knowledge_lacks: list[str] = []
    tool: str = ""
    times: int | None = None


class ToolCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call of a tool; `raw` replaces the arguments by a text that need not be JSON."""

    name: str
    arguments: dict[str, Any] = {}
    raw: str | None = None

    @property
    def text(self) -> str:
        """The arguments as they go over the wire."""
        if self.raw is not None:
            return self.raw
        return msgspec.json.encode(self.arguments).decode()


class Usage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tokens that the answer reports; left out, they follow from the sizes of the texts."""

    input: int
    output: int


class Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the model answers, and how the answer goes wrong.

    Attributes:
        capture: names and regular expressions; the first group of each, found in the messages,
            replaces `{{name}}` in the text and in the arguments of tool calls.
        is_usage_absent: report no usage at all.
        status: any other than 200 is an error in the form of the API.
        body: replaces the whole answer, such as a page of HTML or broken JSON.
        delay_s: seconds before the first byte.
        chunk_delay_s: seconds between the chunks of a stream.
        chunk_size: characters of text or of arguments in one chunk.
        repeat: how often the text is repeated, for answers of megabytes.
        cut_after: chunks after which a stream ends without its last events.
        is_cut_abrupt: close the connection at that point instead of ending the stream properly.
        is_endless: repeat the text in a stream until the client goes away.
    """

    text: str = ""
    tool_calls: list[ToolCall] = []
    usage: Usage | None = None
    capture: dict[str, str] = {}
    finish_reason: str = ""
    is_usage_absent: bool = msgspec.field(default=False, name="usage_absent")
    status: int = 200
    headers: dict[str, str] = {}
    body: str | None = None
    content_type: str = "application/json"
    delay_s: float = 0
    chunk_delay_s: float = 0
    chunk_size: int = 16
    repeat: int = 1
    cut_after: int | None = None
    is_cut_abrupt: bool = msgspec.field(default=False, name="cut_abrupt")
    is_endless: bool = msgspec.field(default=False, name="endless")


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One rule of a script."""

    name: str
    reply: Reply
    when: When = When()


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole script; with `keys`, a request with another key gets 401."""

    rules: list[Rule]
    keys: list[str] | None = None


class InvalidScript(ValueError):
    """The YAML is no script; the message says where."""


def parse(text: str) -> Script:
    """Read a script.

    Raises:
        InvalidScript: The text is no YAML, or a field is unknown or has another type.
    """
    try:
        script = msgspec.convert(yaml.safe_load(text), Script)
    except (yaml.YAMLError, msgspec.ValidationError) as exc:
        raise InvalidScript(str(exc)) from exc
    names = [rule.name for rule in script.rules]
    if len(set(names)) < len(names):
        raise InvalidScript("two rules have the same name")
    return script


def is_match(when: When, conversation: Conversation) -> bool:
    """Whether a request meets all conditions but `times`."""
    last = conversation.messages[-1] if conversation.messages else None
    return (
        fnmatch.fnmatchcase(conversation.model, when.model)
        and (when.turn is None or when.turn == conversation.turn)
        and (not when.tool or when.tool in conversation.tools)
        and (not when.last_role or (last is not None and last.role == when.last_role))
        and _has_all(conversation.system, [when.system])
        and _has_all(last.text if last is not None else "", [when.last])
        and _has_all(conversation.text, when.contains)
        and _has_none(conversation.text, when.lacks)
        and _has_all(conversation.knowledge, when.knowledge_contains)
        and _has_none(conversation.knowledge, when.knowledge_lacks)
    )


def fill(reply: Reply, conversation: Conversation) -> Reply:
    """Put what `capture` finds into the text and into the arguments of tool calls."""
    values = {}
    for name, pattern in reply.capture.items():
        match = re.search(pattern, conversation.text, re.DOTALL)
        values[name] = match.group(1) if match is not None else ""
    if not values:
        return reply
    calls = [
        ToolCall(call.name, _filled(call.arguments, values), call.raw) for call in reply.tool_calls
    ]
    return msgspec.structs.replace(reply, text=_filled(reply.text, values), tool_calls=calls)


def _filled(value: Any, values: dict[str, str]) -> Any:
    if isinstance(value, str):
        for name, replacement in values.items():
            value = value.replace("{{" + name + "}}", replacement)
        return value
    if isinstance(value, dict):
        return {key: _filled(entry, values) for key, entry in value.items()}
    if isinstance(value, list):
        return [_filled(entry, values) for entry in value]
    return value


def _has_all(text: str, parts: list[str]) -> bool:
    lowered = text.lower()
    return all(part.lower() in lowered for part in parts)


def _has_none(text: str, parts: list[str]) -> bool:
    lowered = text.lower()
    return not any(part.lower() in lowered for part in parts)
