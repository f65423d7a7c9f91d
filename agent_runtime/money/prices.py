"""Prices of models: the library's snapshot of public prices, overridden by configured ones.

An endpoint of your own is never priced as the public provider of the same model name. Ollama is
free unless configured otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Protocol

from agent_runtime.errors import AgentError
from kais import labels
from kais.agent_results import FailureClass
from kais.resources.cell_template import Provider

_MILLION = Decimal(1_000_000)


@dataclass(frozen=True, kw_only=True)
class CallUsage:
    """The tokens of one call, as its provider counts them; input includes what was cached."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


class ModelPrice(Protocol):
    """The price of one model."""

    def cost(self, usage: CallUsage) -> Decimal:
        """Return the cost of a call in US dollars."""


@dataclass(frozen=True)
class ConfiguredPrice:
    """A price from the configuration, in US dollars for a million tokens."""

    input: Decimal
    output: Decimal

    def cost(self, usage: CallUsage) -> Decimal:
        """Return the cost of a call; cached tokens cost as much as others."""
        total = self.input * usage.input_tokens + self.output * usage.output_tokens
        return total / _MILLION


FREE = ConfiguredPrice(Decimal(0), Decimal(0))


@dataclass(frozen=True)
class PublicPrice:
    """The price of a public provider, from the snapshot that the library contains."""

    model: str
    provider: str

    def cost(self, usage: CallUsage) -> Decimal:
        """Return the cost of a call."""
        import genai_prices  # noqa: PLC0415 - large, and not needed for an endpoint of your own

        tokens = genai_prices.Usage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
        )
        price = genai_prices.calc_price(tokens, self.model, provider_id=self.provider)
        return price.total_price


def find_price(
    provider: Provider, model: str, *, has_own_endpoint: bool, configured: str
) -> ModelPrice | None:
    """Return the price of a model; None if it is unknown.

    Raises:
        AgentError: `configured` is not valid.
    """
    prices = _parse(configured)
    for key in (f"{provider.value}/{model}", f"{provider.value}/*"):
        if key in prices:
            return prices[key]
    if provider is Provider.OLLAMA:
        return FREE
    return None if has_own_endpoint else _public_price(provider, model)


def _public_price(provider: Provider, model: str) -> PublicPrice | None:
    price = PublicPrice(model, provider.value)
    try:
        price.cost(CallUsage(input_tokens=1, output_tokens=1))
    except LookupError:
        return None
    return price


def _parse(text: str) -> dict[str, ConfiguredPrice]:
    if not text.strip():
        return {}
    try:
        values = json.loads(text)
        return {key: _price(value) for key, value in values.items()}
    except (ValueError, AttributeError, TypeError, KeyError, InvalidOperation) as exc:
        raise AgentError(
            FailureClass.INVALID_CONFIGURATION,
            f"{labels.ENV_PRICES} is invalid: it must be JSON such as "
            '{"openai/gpt-4o": {"input": "2.5", "output": "10"}}, '
            "in US dollars for a million tokens",
        ) from exc


def _price(value: Mapping[str, str]) -> ConfiguredPrice:
    price = ConfiguredPrice(Decimal(str(value["input"])), Decimal(str(value["output"])))
    if not all(part.is_finite() and part >= 0 for part in (price.input, price.output)):
        raise ValueError("a price is negative or infinite")
    return price
