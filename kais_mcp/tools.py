"""Tools: their schemas, effect and cost, and the functions that they call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

QuotaName = Literal["writes", "facts", "bytes", "recalls", "reads"]
Effect = Literal["read", "add", "change"]


class ToolArguments(BaseModel):
    """The arguments of a tool; unknown ones are rejected, because models misspell them."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ToolAnswer(BaseModel):
    """The structured content of an answer."""

    model_config = ConfigDict(frozen=True)


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool.

    `run` receives the backend of the caller and the validated arguments; `render` returns the
    answer as text for models that read no structured content. `cost` is charged to the quotas of
    the caller. `metadata` is that of each answer.
    """

    name: str
    title: str
    description: str
    arguments: type[ToolArguments]
    answer: type[ToolAnswer]
    run: Callable[[Any, Any], Awaitable[ToolAnswer]]
    render: Callable[[Any], str]
    effect: Effect
    cost: Mapping[QuotaName, int]
    metadata: Mapping[str, str] | None = None
