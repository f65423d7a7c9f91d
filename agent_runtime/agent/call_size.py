"""The size of a call of the model: an upper bound of its tokens, and the limit of its answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from pydantic_ai import messages
from pydantic_ai.models import ModelRequestParameters

from agent_runtime.errors import AgentError
from agent_runtime.mind import MindConfig
from kais.agent_results import FailureClass

OUTPUT_TOKENS: Final = 4096
"""Maximum length of an answer if the spec sets none, but limits cost or tokens."""
OVERHEAD_TOKENS: Final = 512
"""An allowance for what a provider adds to a request, such as its sentences about tools."""
_PART_TOKENS: Final = 16


def output_limit(mind: MindConfig, size: int, *, has_budget: bool) -> int | None:
    """Return the maximum length of the answer in tokens; None leaves it to the provider.

    A token of real text has more than two bytes, so half of the bytes is a careful estimate.

    Raises:
        AgentError: The request alone takes all tokens of a turn.
    """
    limit = mind.max_tokens
    if limit is None and (has_budget or mind.max_tokens_per_turn is not None):
        limit = OUTPUT_TOKENS
    if mind.max_tokens_per_turn is None:
        return limit
    rest = mind.max_tokens_per_turn - (size + 1) // 2
    if rest <= 0:
        raise AgentError(
            FailureClass.BUDGET,
            f"the request has about {(size + 1) // 2} tokens; "
            f"resources.maxTokensPerTurn is {mind.max_tokens_per_turn}",
        )
    return min(rest, limit or rest)


def request_bytes(
    history: Sequence[messages.ModelMessage], parameters: ModelRequestParameters
) -> int:
    """Return an upper bound of the tokens of a request: a token has at least one byte."""
    texts = [part_text(part) for message in history for part in message.parts]
    last = history[-1]
    if isinstance(last, messages.ModelRequest):
        texts.append(last.instructions or "")
    texts += [
        tool.name + (tool.description or "") + json.dumps(tool.parameters_json_schema)
        for tool in parameters.function_tools
    ]
    return sum(len(text.encode("utf-8", "replace")) + _PART_TOKENS for text in texts)


def part_text(part: messages.ModelRequestPart | messages.ModelResponsePart) -> str:
    """Return the text of a part as the model reads or writes it."""
    match part:
        case messages.BaseToolReturnPart():
            return part.tool_name + part.model_response_str()
        case messages.ToolCallPart():
            return part.tool_name + part.args_as_json_str()
        case messages.RetryFeedbackPart():
            return part.model_response()
        case messages.UserPromptPart():
            return part.content if isinstance(part.content, str) else repr(part.content)
        case messages.TextPart() | messages.SystemPromptPart() | messages.ThinkingPart():
            return part.content
        case _:
            return repr(part)


def event_bytes(event: object) -> int:
    """Return how many bytes an event of a stream adds to the answer."""
    match event:
        case messages.PartStartEvent(part=part):
            return len(part_text(part).encode("utf-8", "replace"))
        case messages.PartDeltaEvent(delta=messages.TextPartDelta(content_delta=text)):
            return len(text.encode("utf-8", "replace"))
        case messages.PartDeltaEvent(delta=messages.ThinkingPartDelta(content_delta=str(text))):
            return len(text.encode("utf-8", "replace"))
        case messages.PartDeltaEvent(delta=messages.ToolCallPartDelta(args_delta=str(text))):
            return len(text.encode("utf-8", "replace"))
        case _:
            return 0
