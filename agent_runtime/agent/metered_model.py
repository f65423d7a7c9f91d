"""Makes each call of a model within the limits of its cell.

Money is reserved before the call; the call is tried again where that makes sense; its answer is
bounded; and what happens is reported as events.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from pydantic_ai import messages
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from agent_runtime import call_policy
from agent_runtime.agent import call_failures, call_size, reporting
from agent_runtime.agent.call_failures import FailedCall
from agent_runtime.agent.conversation_log import CallGate, ConversationLog
from agent_runtime.agent.working_memory import SUMMARY_TOKENS, WorkingMemory
from agent_runtime.agent_progress import Progress
from agent_runtime.call_policy import CallPolicy
from agent_runtime.errors import AgentError
from agent_runtime.events import AgentEvent, EventSink
from agent_runtime.mind import MindConfig
from agent_runtime.money.meter import Meter
from agent_runtime.money.prices import CallUsage
from agent_runtime.prompt import Framing
from agent_runtime.server_tools import ServerTools
from agent_runtime.telemetry import Traces
from kais.agent_results import FailureClass

ANSWER_BYTES: Final = 1024 * 1024
"""Maximum size of one answer of the model, with its tool calls."""

MAX_TOKENS: Final = 100_000_000
"""Maximum of what is believed of a provider's count; no model reads or writes as much in a call."""


@dataclass(frozen=True, kw_only=True)
class Supervision:
    """The limits, the meter and the observers of every call of the model.

    Attributes:
        peers: names of the cells that the mind may ask.
        servers: the MCP servers whose tools the mind gets.
        gate: decides whether a tool call may run; only for tasks with a journal.
        is_review: whether the mind reviews the work of another cell, and gives a verdict.
        mask: masks the key in a text, because an endpoint may repeat it.
        reserved: called when the cost of a call is reserved, before the call is sent.
        sends_end: whether the provider states why an answer ended; then an answer without a reason
            was cut off. False only in tests.
    """

    mind: MindConfig
    meter: Meter
    sink: EventSink
    framing: Framing
    mask: Callable[[str], str]
    policy: CallPolicy = field(default_factory=CallPolicy)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    sends_end: bool = True
    peers: tuple[str, ...] = ()
    servers: ServerTools | None = None
    is_review: bool = False
    gate: CallGate | None = None
    traces: Traces | None = None
    reserved: Callable[[], Awaitable[None]] | None = None


class MeteredModel(WrapperModel):
    """Makes each call of a model within the limits of its cell."""

    def __init__(
        self,
        wrapped: Model,
        supervision: Supervision,
        progress: Progress,
        log: ConversationLog | None = None,
    ) -> None:
        super().__init__(wrapped)
        self._supervision = supervision
        self._progress = progress
        self._log = log
        self._memory = WorkingMemory.of(supervision.mind, supervision.framing)
        if log is not None:
            log.restore(self._memory)

    async def request(
        self,
        messages: list[messages.ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> messages.ModelResponse:
        """Call the model, and return its whole answer.

        Raises:
            AgentError: The call is not allowed, or has failed permanently.
        """
        reporting.report_request(messages[-1], self._supervision.sink)
        self._progress.add_turn()
        if self._log is not None:
            self._log.save(messages)
        sent = await self._memory.select(messages, self._summarize)
        if self._log is not None:
            self._log.save_memory(self._memory)
        response = await self._send(sent, model_settings, model_request_parameters)
        if self._log is not None:
            self._log.save([*messages, response])
        calls = reporting.report_response(
            response, self._supervision.sink, is_review=self._supervision.is_review
        )
        self._progress.add_tool_calls(calls)
        return response

    async def _summarize(self, request: messages.ModelRequest) -> str:
        settings = ModelSettings(max_tokens=SUMMARY_TOKENS)
        response = await self._send([request], settings, ModelRequestParameters())
        return response.text or ""

    async def _send(
        self,
        history: list[messages.ModelMessage],
        model_settings: ModelSettings | None,
        parameters: ModelRequestParameters,
    ) -> messages.ModelResponse:
        size = call_size.request_bytes(history, parameters)
        limit = call_size.output_limit(
            self._supervision.mind, size, has_budget=self._supervision.meter.has_budget
        )
        settings = ModelSettings() if model_settings is None else model_settings.copy()
        if limit is not None:
            settings["max_tokens"] = min(limit, settings.get("max_tokens") or limit)
        worst_case = CallUsage(
            input_tokens=size + call_size.OVERHEAD_TOKENS,
            output_tokens=limit or call_size.OUTPUT_TOKENS,
        )
        return await self._call(history, settings, parameters, worst_case)

    async def _call(
        self,
        history: list[messages.ModelMessage],
        settings: ModelSettings,
        parameters: ModelRequestParameters,
        worst_case: CallUsage,
    ) -> messages.ModelResponse:
        supervision = self._supervision
        tries = 0
        while True:
            tries += 1
            call = supervision.meter.reserve(worst_case)
            if supervision.reserved is not None:
                await supervision.reserved()
            try:
                async with asyncio.timeout(supervision.policy.call_s):
                    response = await self._complete(history, settings, parameters)
            except Exception as exc:  # noqa: BLE001 - a malformed answer raises anything
                failed = call_failures.classify(exc, supervision.mind)
                if failed.is_charged:
                    supervision.meter.keep(call)
                else:
                    supervision.meter.release(call)
                await self._wait(failed, tries, exc)
            else:
                self._settle(call, response)
                return response

    async def _complete(
        self,
        history: list[messages.ModelMessage],
        settings: ModelSettings,
        parameters: ModelRequestParameters,
    ) -> messages.ModelResponse:
        size = 0
        async with self.wrapped.request_stream(history, settings, parameters) as stream:
            async for event in stream:
                size += call_size.event_bytes(event)
                if size > ANSWER_BYTES:
                    raise AgentError(
                        FailureClass.BAD_ANSWER,
                        f"an answer of the model exceeds {ANSWER_BYTES} bytes",
                        is_charged=True,
                    )
            response = stream.get()
        details = response.provider_details or {}
        if self._supervision.sends_end and not details.get("finish_reason"):
            raise AgentError(
                FailureClass.MODEL_UNAVAILABLE,
                "the stream of the model ended before its answer did",
                is_charged=True,
            )
        return reporting.masked(response, self._supervision.mask)

    def _settle(self, call: int, response: messages.ModelResponse) -> None:
        usage = _reported_usage(response)
        is_measured = usage.input_tokens > 0 and usage.output_tokens > 0
        self._supervision.meter.settle(call, usage, is_measured=is_measured)
        limit = self._supervision.mind.max_tokens_per_turn
        total = usage.input_tokens + usage.output_tokens
        if limit is not None and total > limit:
            raise AgentError(
                FailureClass.BUDGET,
                f"a call of the model used {total} tokens; resources.maxTokensPerTurn is {limit}",
            )

    async def _wait(self, failed: FailedCall, tries: int, error: Exception) -> None:
        """Wait before the next try, or raise the failure if no try is left."""
        failure = failed.error.failure
        text = f"{failure.reason}: {failure.message}"
        self._supervision.sink(AgentEvent("error", text, signature=failure.reason.value))
        delay = None
        if failed.may_retry:
            delay = call_policy.retry_delay_s(
                self._supervision.policy,
                tries=tries,
                requested_s=failed.retry_after_s,
                jitter=random.random(),  # noqa: S311 - spreads retries
            )
        if delay is None:
            raise failed.error from error
        limit = self._supervision.policy.tries
        self._supervision.sink(
            AgentEvent("retry", f"try {tries + 1} of {limit} of a call of the model")
        )
        await self._supervision.sleep(delay)


def _reported_usage(response: messages.ModelResponse) -> CallUsage:
    """Return the usage that the provider reports; impossible counts are corrected."""
    tokens = response.usage
    count = min(max(0, tokens.input_tokens), MAX_TOKENS)
    cache_read = min(max(0, tokens.cache_read_tokens), count)
    return CallUsage(
        input_tokens=count,
        output_tokens=min(max(0, tokens.output_tokens), MAX_TOKENS),
        cache_read_tokens=cache_read,
        cache_write_tokens=min(max(0, tokens.cache_write_tokens), count - cache_read),
    )
