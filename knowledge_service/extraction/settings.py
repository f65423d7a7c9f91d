"""Settings of the models that may extract facts; without any, extraction is by rules alone."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from knowledge_service.errors import StartupError

APIS = ("openai", "anthropic")
_FIELDS = frozenset({"url", "api", "model", "keyFile", "input", "output", "maxTokens", "verify"})
_MAX_TOKENS = 4_000
_MAX_TOKENS_LIMIT = 100_000
_FORM = (
    'it must be JSON such as {"small": {"url": "https://api.openai.com/v1", "api": "openai", '
    '"model": "gpt-5-mini", "keyFile": "/etc/kais/key", "input": "0.25", "output": "2"}}'
)


@dataclass(frozen=True, kw_only=True)
class ModelEndpoint:
    """A model that may extract facts.

    Attributes:
        name: what `extraction.model` of a KnowledgeScope says.
        url: base URL, to which the path of the API is added.
        api: one of `APIS`.
        model: name of the model at the endpoint.
        key_file: file with the key, read for each call; None: no key.
        input_price: US dollars for a million tokens; None: unknown. The same for `output_price`.
        max_tokens: maximum length of an answer.
        is_verifying: whether a second call verifies the statements that the first one brought.
    """

    name: str
    url: str
    api: str
    model: str
    key_file: Path | None = None
    input_price: Decimal | None = None
    output_price: Decimal | None = None
    max_tokens: int = _MAX_TOKENS
    is_verifying: bool = True


@dataclass(frozen=True)
class ExtractionSettings:
    """The models by name, and what their calls may cost in one realm within 24 hours."""

    models: Mapping[str, ModelEndpoint] = field(default_factory=dict)
    budget: Decimal | None = None


def read(environment: Mapping[str, str] | None = None) -> ExtractionSettings:
    """Read KAIS_EXTRACTION_MODELS and KAIS_EXTRACTION_BUDGET.

    Raises:
        StartupError: a value is invalid; the message names the variable.
    """
    env = os.environ if environment is None else environment
    text = env.get("KAIS_EXTRACTION_MODELS", "").strip()
    try:
        values = json.loads(text) if text else {}
        models = {name: _endpoint(name, value) for name, value in values.items()}
    except (ValueError, AttributeError, TypeError, KeyError, InvalidOperation) as exc:
        raise StartupError(f"KAIS_EXTRACTION_MODELS is invalid ({exc!r}); {_FORM}") from exc
    return ExtractionSettings(models, _budget(env.get("KAIS_EXTRACTION_BUDGET", "").strip()))


def _endpoint(name: str, value: Mapping[str, Any]) -> ModelEndpoint:
    unknown = sorted(set(value) - _FIELDS)
    if unknown:
        raise ValueError(f"{name}: unknown field {unknown[0]}")
    url, api = str(value["url"]).rstrip("/"), value.get("api", "openai")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ValueError(f"{name}: url is no http(s) address")
    if api not in APIS:
        raise ValueError(f"{name}: api must be {' or '.join(APIS)}")
    max_tokens = int(value.get("maxTokens", _MAX_TOKENS))
    if not 0 < max_tokens <= _MAX_TOKENS_LIMIT:
        raise ValueError(f"{name}: maxTokens must be 1 to {_MAX_TOKENS_LIMIT}")
    is_verifying = value.get("verify", True)
    if not isinstance(is_verifying, bool):
        raise TypeError(f"{name}: verify must be true or false")
    return ModelEndpoint(
        name=name,
        url=url,
        api=api,
        model=str(value.get("model", name)),
        key_file=Path(value["keyFile"]) if value.get("keyFile") else None,
        input_price=_price(name, value.get("input")),
        output_price=_price(name, value.get("output")),
        max_tokens=max_tokens,
        is_verifying=is_verifying,
    )


def _price(name: str, value: object) -> Decimal | None:
    if value is None:
        return None
    price = Decimal(str(value))
    if not price.is_finite() or price < 0:
        raise ValueError(f"{name}: a price is negative or infinite")
    return price


def _budget(text: str) -> Decimal | None:
    if not text:
        return None
    try:
        budget = Decimal(text)
    except InvalidOperation:
        budget = Decimal("NaN")
    if not budget.is_finite() or budget < 0:
        raise StartupError(
            f"KAIS_EXTRACTION_BUDGET is {text!r}; it must be an amount in US dollars such as 0.50"
        )
    return budget
