"""An answer of the model before an API gives it a form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.model_server import conversation as conversations
from tests.model_server.conversation import Conversation
from tests.model_server.script import Reply, ToolCall


@dataclass(frozen=True)
class Answer:
    """The text and the calls of one answer, with its tokens.

    `number` makes the ids of the answer and of its calls, which repeat in each run of a script.
    """

    number: int
    model: str
    text: str
    calls: tuple[ToolCall, ...]
    input_tokens: int
    output_tokens: int
    has_usage: bool
    finish_reason: str
    chunk_size: int

    @property
    def id(self) -> str:
        """The id of the answer."""
        return f"answer-{self.number}"

    def call_id(self, index: int) -> str:
        """Return the id of one call of a tool."""
        return f"call-{self.number}-{index + 1}"

    def chunks(self, text: str) -> Iterator[str]:
        """Cut a text into the chunks of a stream."""
        for start in range(0, len(text), self.chunk_size):
            yield text[start : start + self.chunk_size]


def make(reply: Reply, conversation: Conversation, number: int) -> Answer:
    """Build the answer of a reply to a conversation."""
    text = reply.text * reply.repeat
    calls = tuple(reply.tool_calls)
    usage = reply.usage
    written = text + "".join(call.name + call.text for call in calls)
    return Answer(
        number=number,
        model=conversation.model,
        text=text,
        calls=calls,
        input_tokens=usage.input if usage else conversation.input_tokens,
        output_tokens=usage.output if usage else conversations.tokens(written),
        has_usage=not reply.is_usage_absent,
        finish_reason=reply.finish_reason,
        chunk_size=reply.chunk_size,
    )
