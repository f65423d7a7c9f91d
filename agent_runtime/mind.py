"""The mind of a cell: what its spec declares, checked before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import pydantic

from agent_runtime.errors import AgentError
from agent_runtime.settings import Settings
from kais import agent_tools, durations, mcp_servers
from kais.agent_results import FailureClass
from kais.agent_tools import AgentTool
from kais.mcp_servers import McpServer
from kais.resources.cell import CellSpec
from kais.resources.cell_template import (
    ApprovalTimeout,
    CellMode,
    CellResources,
    Mind,
    Provider,
    Tool,
    WorkingMemory,
)

_PROMPT_BYTES = 1_048_576
_NAMES = frozenset(AgentTool)


@dataclass(frozen=True)
class ApprovalRule:
    """How long a call waits for a person; afterwards it is denied, or its attempt fails."""

    timeout_s: float
    fails: bool


@dataclass(frozen=True, kw_only=True)
class MindConfig:
    """A mind as the runtime works with it.

    Attributes:
        base_url: endpoint of the model; None is the public one of the provider.
        secret: the Secret with its key as `secret/key`, for messages.
        max_tokens: maximum length of an answer in tokens; None leaves it to the provider.
        max_tokens_per_turn: maximum of input and output tokens of one call of the model.
        is_injected: whether recalled facts come with each message.
        max_messages: maximum number of messages of a conversation that are sent; above
            `summarize_after` messages, a summary replaces the older ones.
        servers: the MCP servers whose tools the mind gets too.
        approvals: rules of the tools whose calls wait for a person, by tool or by prefix of a
            server. None exempts a tool from the rule of its server.
        max_total_cost: limit of the total cost in US dollars; `max_cost_per_hour` within an hour.
    """

    provider: Provider
    model: str
    prompt: str
    mode: CellMode
    base_url: str | None = None
    secret: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    tools: tuple[AgentTool, ...] = ()
    servers: tuple[McpServer, ...] = ()
    max_tokens_per_turn: int | None = None
    max_total_cost: Decimal | None = None
    max_cost_per_hour: Decimal | None = None
    max_messages: int = 50
    summarize_after: int = 40
    is_injected: bool = True
    approvals: Mapping[str, ApprovalRule | None] = field(default_factory=dict)


def load(settings: Settings) -> MindConfig:
    """Read the mind from the spec of the cell.

    Raises:
        AgentError: The spec cannot be run; the message names the field.
    """
    try:
        spec = CellSpec.model_validate_json(settings.spec)
    except pydantic.ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        field_path = ".".join(str(part) for part in first["loc"])
        raise _invalid(f"spec.{field_path}: {first['msg']}".replace("spec.:", "spec:")) from exc
    if spec.mind is None:
        raise _invalid("spec.mind is missing; the agent runtime runs cells with a mind only")
    problem = agent_tools.problem(tool.name for tool in spec.tools)
    if problem is not None:
        raise _invalid(problem)
    problem = agent_tools.server_problem(spec.tools)
    if problem is not None:
        raise _invalid(problem)
    limits = spec.resources or CellResources()
    memory = spec.mind.working_memory or WorkingMemory()
    return MindConfig(
        provider=spec.mind.provider,
        model=spec.mind.model,
        prompt=_prompt(spec.mind, settings.instructions_file),
        mode=spec.effective_mode,
        base_url=spec.mind.base_url or settings.model_url,
        secret=settings.secret,
        temperature=spec.mind.temperature,
        max_tokens=spec.mind.max_tokens,
        tools=tuple(dict.fromkeys(AgentTool(n) for n in map(_name_of, spec.tools) if n in _NAMES)),
        servers=mcp_servers.parse(spec.tools),
        max_tokens_per_turn=limits.max_tokens_per_turn,
        max_total_cost=_money(limits.max_total_cost),
        max_cost_per_hour=_money(limits.max_cost_per_hour),
        max_messages=memory.max_messages,
        summarize_after=memory.summarize_after,
        is_injected=spec.knowledge is None or spec.knowledge.inject is not False,
        approvals=_approvals(spec.tools),
    )


def _name_of(tool: Tool) -> str:
    return tool.name


def _approvals(tools: Sequence[Tool]) -> dict[str, ApprovalRule | None]:
    """Return the rules by the name of a tool, or by the prefix of all tools of a server."""
    rules: dict[str, ApprovalRule | None] = {}
    servers = iter(mcp_servers.parse(tools))
    for tool in tools:
        name = next(servers).prefix if tool.name == mcp_servers.MCP else tool.name
        rule = _approval(tool)
        if rule is not None or mcp_servers.is_server_tool(name):
            rules[name] = rule
    return rules


def _approval(tool: Tool) -> ApprovalRule | None:
    if tool.approval is None or not tool.approval.required:
        return None
    return ApprovalRule(
        durations.parse(tool.approval.timeout).total_seconds(),
        tool.approval.on_timeout is ApprovalTimeout.FAIL,
    )


def _prompt(mind: Mind, file: Path | None) -> str:
    if mind.system_prompt:
        return mind.system_prompt
    if file is None:
        raise _invalid("spec.mind: has neither systemPrompt nor instructionsFrom")
    try:
        with file.open("rb") as stream:
            content = stream.read(_PROMPT_BYTES + 1)
        text = content.decode("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise _invalid(f"spec.mind.instructionsFrom: cannot read {file}: {exc}") from exc
    if len(content) > _PROMPT_BYTES:
        raise _invalid(f"spec.mind.instructionsFrom: is longer than {_PROMPT_BYTES} bytes")
    return text


def _money(value: float | None) -> Decimal | None:
    return None if value is None else Decimal(str(value))


def _invalid(message: str) -> AgentError:
    return AgentError(FailureClass.INVALID_CONFIGURATION, message)
