"""What one attempt of a mind leaves as its termination message: answer, usage, failure.

The agent runtime writes it, the operator reads it. It is one JSON object within the size that the
kubelet keeps, so a long answer is cut.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any

from kais import mcp_servers
from kais.encodable_text import encodable
from kais.mcp_servers import Reports, ServerState

VERSION_KEY = "kais.io/agent"
VERSION = 1
EXIT_ANSWERED = 0
EXIT_FAILED = 1
EXIT_RETRYABLE = 75
"""As EX_TEMPFAIL of sysexits.h: the next attempt may succeed."""
EXIT_INVALID = 78
"""As EX_CONFIG of sysexits.h: the spec or the environment is wrong."""
MAX_ARTIFACTS = 20
MAX_COST = Decimal(10**9)
"""US dollars; a usage above it is refused, as is a cost with more than `COST_DECIMALS` decimals."""
COST_DECIMALS = 18
MAX_COUNT = 10**15
_MESSAGE_BYTES = 1024
_QUOTES = 2
_ARTIFACTS_KEY = len(',"artifacts":')
_SERVERS_KEY = len(',"servers":')
MIN_BYTES = 240
"""The smallest limit of a result: the share of a container in a pod with 50 checks."""


class FailureClass(StrEnum):
    """Why a mind gave no answer; decides whether another attempt makes sense."""

    MODEL_UNAUTHORIZED = "model-unauthorized"
    MODEL_UNAVAILABLE = "model-unavailable"
    MODEL_REFUSED = "model-refused"
    CONTEXT_EXCEEDED = "context-exceeded"
    TOOL_FAILED = "tool-failed"
    TOOL_LOOP = "tool-loop"
    BUDGET = "budget"
    INTERRUPTED = "interrupted"
    BAD_ANSWER = "bad-answer"
    LOOP = "loop"
    INVALID_CONFIGURATION = "invalid-configuration"

    @property
    def is_retryable(self) -> bool:
        """Whether another attempt may succeed without a change by a person."""
        return self in (FailureClass.MODEL_UNAVAILABLE, FailureClass.INTERRUPTED)

    @property
    def exit_status(self) -> int:
        """Exit status of a task that failed for this reason."""
        if self.is_retryable:
            return EXIT_RETRYABLE
        return EXIT_INVALID if self is FailureClass.INVALID_CONFIGURATION else EXIT_FAILED


@dataclass(frozen=True, kw_only=True)
class AgentUsage:
    """The usage of a mind: tokens, turns, tool calls and cost.

    Attributes:
        turns: calls of the model that were answered.
        cost: US dollars, with the reservations of calls whose usage is unknown.
        estimated_cost: the part of `cost` that consists of such reservations.
        is_priced: False if the model has no known price; then `cost` is 0.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    turns: int = 0
    tool_calls: int = 0
    cost: Decimal = Decimal(0)
    estimated_cost: Decimal = Decimal(0)
    is_priced: bool = True

    def __add__(self, other: AgentUsage) -> AgentUsage:
        """Add two usages up."""
        return AgentUsage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            turns=self.turns + other.turns,
            tool_calls=self.tool_calls + other.tool_calls,
            cost=self.cost + other.cost,
            estimated_cost=self.estimated_cost + other.estimated_cost,
            is_priced=self.is_priced and other.is_priced,
        )

    def __sub__(self, other: AgentUsage) -> AgentUsage:
        """Subtract a part of a sum; the result is never negative."""
        return AgentUsage(
            input_tokens=max(0, self.input_tokens - other.input_tokens),
            output_tokens=max(0, self.output_tokens - other.output_tokens),
            turns=max(0, self.turns - other.turns),
            tool_calls=max(0, self.tool_calls - other.tool_calls),
            cost=max(Decimal(0), self.cost - other.cost),
            estimated_cost=max(Decimal(0), self.estimated_cost - other.estimated_cost),
            is_priced=self.is_priced,
        )


@dataclass(frozen=True)
class Artifact:
    """A file that a mind wrote: its path in the workspace, such as `shared/report.md`."""

    path: str
    size_bytes: int


@dataclass(frozen=True)
class AgentFailure:
    """Why a mind gave no answer, in one word for programs and a sentence for people."""

    reason: FailureClass
    message: str


@dataclass(frozen=True, kw_only=True)
class AgentResult:
    """The result of one attempt of a mind: its answer, or its failure."""

    answer: str = ""
    is_truncated: bool = False
    usage: AgentUsage = field(default_factory=AgentUsage)
    failure: AgentFailure | None = None
    artifacts: tuple[Artifact, ...] = ()
    servers: Reports = field(default_factory=dict)


def serialize(result: AgentResult, *, limit_bytes: int) -> str:
    """Write a result as JSON of at most `limit_bytes`; the answer is cut as far as necessary.

    Artifacts come first, as far as they fit into a quarter of the limit, then reports about servers
    under the same bound. The message of a failure takes half of the limit at most: the pod of many
    checks leaves few bytes to each container.

    The kubelet cuts a longer message anywhere, so the limit holds exactly.

    Raises:
        ValueError: Not even the result without its answer fits.
    """
    files, servers = result.artifacts, result.servers
    result = replace(result, artifacts=(), servers={})
    if result.failure is not None:
        short = _failure_message(result, result.failure, limit_bytes)
        result = replace(result, failure=replace(result.failure, message=short))
    rest = limit_bytes - len(_dump(_shortened(result, 0)).encode()) - _ARTIFACTS_KEY
    result = replace(result, artifacts=_bounded(files, min(limit_bytes // 4, rest)))
    rest = limit_bytes - len(_dump(_shortened(result, 0)).encode()) - _SERVERS_KEY
    result = replace(result, servers=_bounded_reports(servers, min(limit_bytes // 4, rest)))
    complete = _dump(result)
    if len(complete.encode()) <= limit_bytes:
        return complete
    low, high = 0, len(result.answer)
    while low < high:
        middle = (low + high + 1) // 2
        if len(_dump(_shortened(result, middle)).encode()) <= limit_bytes:
            low = middle
        else:
            high = middle - 1
    text = _dump(_shortened(result, low))
    if len(text.encode()) > limit_bytes:
        raise ValueError(f"a result does not fit into {limit_bytes} bytes")
    return text


def parse(message: str) -> AgentResult | None:
    """Read a termination message; None if the agent runtime did not write it."""
    try:
        value = json.loads(message)
        if not isinstance(value, dict) or value.get(VERSION_KEY) != VERSION:
            return None
        return AgentResult(
            answer=str(value.get("answer", "")),
            is_truncated=bool(value.get("truncated", False)),
            usage=parse_usage(value.get("usage") or {}),
            failure=_failure(value.get("failure")),
            artifacts=tuple(
                Artifact(str(entry["path"]), _count(entry, "bytes"))
                for entry in value.get("artifacts", ())
            ),
            servers=mcp_servers.parse_reports(value.get("servers")),
        )
    except (ValueError, TypeError, AttributeError, KeyError, ArithmeticError, RecursionError):
        return None


def _bounded(artifacts: tuple[Artifact, ...], limit_bytes: int) -> tuple[Artifact, ...]:
    bounded = artifacts[:MAX_ARTIFACTS]
    while bounded and len(json.dumps(_dump_artifacts(bounded)).encode()) > limit_bytes:
        bounded = bounded[:-1]
    return bounded


def _bounded_reports(servers: Reports, limit_bytes: int) -> Reports:
    """Drop reports until the rest fits; reports of connected servers are dropped first."""
    bounded = dict(servers)
    useful = sorted(servers, key=lambda name: servers[name].state is ServerState.CONNECTED)
    while bounded and _size(mcp_servers.dump_reports(bounded)) > limit_bytes:
        del bounded[useful.pop()]
    return bounded


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def _dump_artifacts(artifacts: tuple[Artifact, ...]) -> list[dict[str, Any]]:
    return [{"path": artifact.path, "bytes": artifact.size_bytes} for artifact in artifacts]


def _failure_message(result: AgentResult, failure: AgentFailure, limit_bytes: int) -> str:
    """Cut the message of a failure to half of the limit, or to the space beside the usage."""
    bare = replace(_shortened(result, 0), failure=replace(failure, message=""))
    rest = limit_bytes - len(_dump(bare).encode())
    message = _cut(failure.message, min(_MESSAGE_BYTES, limit_bytes // 2))
    while message and len(json.dumps(message, ensure_ascii=False).encode()) - _QUOTES > rest:
        message = message[:-1]
    return message


def _shortened(result: AgentResult, characters: int) -> AgentResult:
    return replace(result, answer=result.answer[:characters], is_truncated=True)


def _cut(text: str, limit_bytes: int) -> str:
    return text.encode("utf-8", "replace")[:limit_bytes].decode("utf-8", "ignore")


def dump_usage(usage: AgentUsage) -> dict[str, Any]:
    """Return a usage as JSON; costs are texts."""
    counted: dict[str, Any] = {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "turns": usage.turns,
        "toolCalls": usage.tool_calls,
        "cost": format(usage.cost, "f"),
    }
    if usage.estimated_cost:
        counted["estimatedCost"] = format(usage.estimated_cost, "f")
    if not usage.is_priced:
        counted["isPriced"] = False
    return counted


def _dump(result: AgentResult) -> str:
    value: dict[str, Any] = {VERSION_KEY: VERSION, "usage": dump_usage(result.usage)}
    if result.answer:
        value["answer"] = encodable(result.answer)
    if result.is_truncated:
        value["truncated"] = True
    if result.artifacts:
        value["artifacts"] = _dump_artifacts(result.artifacts)
    if result.servers:
        value["servers"] = mcp_servers.dump_reports(result.servers)
    if result.failure is not None:
        value["failure"] = {
            "class": result.failure.reason.value,
            "message": result.failure.message,
        }
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def parse_usage(value: Mapping[str, Any]) -> AgentUsage:
    """Read a usage.

    Raises:
        ValueError: A count or a cost is not a number, or out of range.
    """
    return AgentUsage(
        input_tokens=_count(value, "inputTokens"),
        output_tokens=_count(value, "outputTokens"),
        turns=_count(value, "turns"),
        tool_calls=_count(value, "toolCalls"),
        cost=_cost(value, "cost"),
        estimated_cost=_cost(value, "estimatedCost"),
        is_priced=bool(value.get("isPriced", True)),
    )


def _count(value: Mapping[str, Any], name: str) -> int:
    number = value.get(name, 0)
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise ValueError(f"{name} is {number!r}, and no count")
    if number > MAX_COUNT:
        raise ValueError(f"{name} is above {MAX_COUNT}")
    return number


def _cost(value: Mapping[str, Any], name: str) -> Decimal:
    try:
        cost = Decimal(str(value.get(name, "0")))
    except InvalidOperation as exc:
        raise ValueError(f"{name} is no number") from exc
    exponent = cost.as_tuple().exponent
    if not isinstance(exponent, int) or not 0 <= cost <= MAX_COST:
        raise ValueError(f"{name} is no cost from 0 to {MAX_COST}")
    if not -COST_DECIMALS <= exponent <= COST_DECIMALS:
        raise ValueError(f"{name} has more than {COST_DECIMALS} decimals")
    return cost


def _failure(value: Mapping[str, Any] | None) -> AgentFailure | None:
    if value is None:
        return None
    return AgentFailure(FailureClass(value["class"]), str(value.get("message", "")))
