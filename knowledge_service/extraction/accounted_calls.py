"""Asks a model within the budget of a realm, and records what each call costs.

A malformed answer is repaired once. The cost of each call is reserved before it is sent and settled
after it, so that the calls of a realm stay within the budget. A call that a crash interrupted
counts with its maximum cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol, TypeVar

from knowledge_service.domain import extraction_prompt
from knowledge_service.domain.extraction_answer import MalformedAnswer
from knowledge_service.extraction.model_client import (
    Message,
    ModelAnswer,
    ModelCallFailed,
    ModelClient,
    Prompt,
)
from knowledge_service.extraction.settings import ModelEndpoint

_MILLION = Decimal(1_000_000)
_OVERHEAD_TOKENS = 1_000  # of the schema, and of the roles of messages
# An endpoint may ignore the maximum length, and a repair is billed for what it repeats. The bound
# is arbitrary, and longer than most answers of the default maxTokens.
_REPEATED_CHARS = 20_000
Answer = TypeVar("Answer")


class ModelUnusable(Exception):
    """The model cannot extract facts of this run, now or later; the message says why."""


class BudgetExceeded(ModelUnusable):
    """The budget of the realm does not allow the call."""


class ModelUnavailable(Exception):
    """The model gave no answer, and may later."""

    def __init__(self, message: str, retry_after_s: float | None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, kw_only=True)
class CallUsage:
    """The usage of a call; `cost` is None if its price is unknown."""

    input_tokens: int
    output_tokens: int
    cost: Decimal | None


class CallLedger(Protocol):
    """Records the calls of one extraction."""

    def reserve(self, cost: Decimal | None, budget: Decimal | None) -> bool:
        """Record that a call of at most this cost begins; False if the budget does not allow it."""
        ...

    def settle(self, reserved: Decimal | None, usage: CallUsage) -> None:
        """Replace a reservation by what the call used."""
        ...


@dataclass(frozen=True)
class AccountedCalls:
    """Calls of one model for one extraction."""

    client: ModelClient
    endpoint: ModelEndpoint
    budget: Decimal | None
    ledger: CallLedger

    def ask(self, prompt: Prompt, message: str, parse: Callable[[str], Answer]) -> Answer:
        """Return the parsed answer to a message; `parse` raises MalformedAnswer.

        Raises:
            ModelUnusable: the model is too expensive, refuses, or answers twice with something
                else.
            ModelUnavailable: a later call may succeed.
        """
        messages: list[Message] = [("user", message)]
        answer = self._call(prompt, messages)
        try:
            return _parsed(answer, parse)
        except MalformedAnswer as exc:
            repair = extraction_prompt.REPAIR.format(problem=exc)
            previous = answer.text[:_REPEATED_CHARS] or "(empty)"
            messages += [("assistant", previous), ("user", repair)]
            try:
                return _parsed(self._call(prompt, messages), parse)
            except MalformedAnswer as second:
                raise ModelUnusable(
                    f"the model {self.endpoint.name} answered twice with something else than "
                    f"{prompt.answer_name}: {second}"
                ) from second

    def _call(self, prompt: Prompt, messages: Sequence[Message]) -> ModelAnswer:
        endpoint = self.endpoint
        # A token has at least one byte. The estimate counts only until the answer.
        size = sum(len(text.encode()) for _, text in messages)
        most_input = size + len(prompt.instructions) + _OVERHEAD_TOKENS
        worst = _cost(endpoint, most_input, endpoint.max_tokens)
        if worst is None and self.budget is not None:
            raise ModelUnusable(
                f"the price of the model {endpoint.name} is unknown, and KAIS_EXTRACTION_BUDGET is "
                "set; give its prices in knowledge.extraction.models"
            )
        if not self.ledger.reserve(worst, self.budget):
            raise BudgetExceeded(
                f"a call of the model {endpoint.name} may cost {worst:.4f} US dollars, which "
                f"exceeds what is left of the {self.budget} that the extractions of a realm may "
                "cost in 24 hours"
            )
        try:
            answer = self.client.call(endpoint, prompt, messages)
        except ModelCallFailed as exc:
            if exc.was_answered:
                no_usage = CallUsage(input_tokens=0, output_tokens=0, cost=Decimal(0))
                self.ledger.settle(worst, no_usage)
            if exc.is_temporary:
                raise ModelUnavailable(str(exc), exc.retry_after_s) from exc
            raise ModelUnusable(str(exc)) from exc
        if answer.input_tokens is None or answer.output_tokens is None:
            # The endpoint does not count: the reservation stands.
            return answer
        usage = CallUsage(
            input_tokens=answer.input_tokens,
            output_tokens=answer.output_tokens,
            cost=_cost(endpoint, answer.input_tokens, answer.output_tokens),
        )
        self.ledger.settle(worst, usage)
        return answer


def _parsed(answer: ModelAnswer, parse: Callable[[str], Answer]) -> Answer:
    if answer.is_cut:
        raise MalformedAnswer("it was cut at the maximum length (maxTokens); answer more briefly")
    return parse(answer.text)


def _cost(endpoint: ModelEndpoint, input_tokens: int, output_tokens: int) -> Decimal | None:
    if endpoint.input_price is None or endpoint.output_price is None:
        return None
    total = endpoint.input_price * input_tokens + endpoint.output_price * output_tokens
    return total / _MILLION
