"""The settings of the agent runtime: the only reader of the environment in this package."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

from agent_runtime.errors import AgentError
from kais import a2a, agent_results, labels, trace_context
from kais.agent_results import FailureClass

_STATE = "/var/lib/kais-agent"
_TERMINATION_FILE = "/dev/termination-log"
_WORKSPACE = "/workspace"
_RESULT_BYTES = 4096
_MAX_PORT = 65535
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of one pod, besides those that the knowledge client reads.

    Attributes:
        model_url: endpoint of the model if the spec names none.
        key_file: file with the key of the endpoint; it may appear or change later.
        secret: the Secret behind that file as `secret/key`, for messages.
        mcp_headers: folder with the headers for MCP servers; they may appear or change later.
        prices: prices of models as JSON, not yet parsed.
        max_cost: what all limits leave to this pod, in US dollars.
        spent: cost of earlier pods of the cell, in US dollars; `spent_hour` within the last hour.
        port: port of the A2A server in mode Service; 0 is any free one.
        peers_file: `routes.json` of the formation, which changes when the team is scaled.
        result_bytes: maximum size of the termination message.
        traceparent: the trace of the run, in mode Task.
        arm: whether the run gets knowledge (`on`, `off` or `holdout`), in mode Task with the tool
            `blackboard`; `off` if it is not set.
        calls_since: the first attempt whose tool calls this one continues, in mode Task.
        has_traces: whether the OTEL_* variables ask for traces.
        has_trace_content: whether traces contain texts of prompts, answers and tools.
    """

    cell: str
    spec: str
    objective: str = ""
    message: str = ""
    feedback: str = ""
    run_id: str | None = None
    knowledge_url: str | None = None
    scope: str | None = None
    knowledge_file: Path | None = None
    instructions_file: Path | None = None
    mcp_headers: Path | None = None
    model_url: str | None = None
    key_file: Path | None = None
    secret: str | None = None
    prices: str = ""
    max_cost: Decimal | None = None
    spent: Decimal = Decimal(0)
    spent_hour: Decimal = Decimal(0)
    result_bytes: int = _RESULT_BYTES
    termination_file: Path = Path(_TERMINATION_FILE)
    state: Path = Path(_STATE)
    workspace: Path = Path(_WORKSPACE)
    formation: str | None = None
    peers_file: Path | None = None
    log_level: str = "INFO"
    port: int = a2a.PORT
    traceparent: str | None = None
    arm: str = "off"
    calls_since: str = ""
    has_traces: bool = False
    has_trace_content: bool = False


def result_file(environment: Mapping[str, str] | None = None) -> Path:
    """Return the file of the result, which is needed even when other settings are invalid."""
    values = os.environ if environment is None else environment
    return Path(values.get(labels.ENV_TERMINATION_FILE) or _TERMINATION_FILE)


def from_environment(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings, by default from the environment of the process.

    Raises:
        AgentError: A variable is missing or invalid; the message names it.
    """
    values = os.environ if environment is None else environment
    return Settings(
        cell=_required(values, labels.ENV_CELL_NAME),
        spec=_spec(values),
        objective=values.get(labels.ENV_OBJECTIVE, ""),
        message=values.get(labels.ENV_MESSAGE, ""),
        feedback=values.get(labels.ENV_FEEDBACK, ""),
        run_id=values.get(labels.ENV_RUN_ID) or None,
        knowledge_url=values.get(labels.ENV_KNOWLEDGE_SERVICE_URL) or None,
        scope=values.get(labels.ENV_KNOWLEDGE_SCOPE) or None,
        knowledge_file=_path(values, labels.ENV_KNOWLEDGE_FILE),
        instructions_file=_path(values, labels.ENV_INSTRUCTIONS_FILE),
        mcp_headers=_path(values, labels.ENV_MCP_HEADERS),
        model_url=values.get(labels.ENV_MODEL_URL) or None,
        key_file=_path(values, labels.ENV_MODEL_KEY_FILE),
        secret=values.get(labels.ENV_MODEL_SECRET) or None,
        prices=values.get(labels.ENV_PRICES, ""),
        max_cost=_max_cost(values),
        spent=_optional_cost(values, labels.ENV_COST_SPENT) or Decimal(0),
        spent_hour=_optional_cost(values, labels.ENV_COST_SPENT_HOUR) or Decimal(0),
        result_bytes=_result_bytes(values),
        termination_file=result_file(values),
        state=_path(values, labels.ENV_AGENT_STATE) or Path(_STATE),
        workspace=_path(values, "KAIS_WORKSPACE") or Path(_WORKSPACE),
        formation=values.get(labels.ENV_FORMATION) or None,
        peers_file=_path(values, labels.ENV_PEERS_FILE),
        port=_port(values.get(labels.ENV_A2A_PORT) or str(a2a.PORT)),
        traceparent=trace_context.parse(values.get(trace_context.ENV_TRACEPARENT)),
        arm=values.get(labels.ENV_ARM) or "off",
        calls_since=values.get(labels.ENV_CALLS_SINCE) or values.get(labels.ENV_ATTEMPT, ""),
        has_traces=trace_context.is_exported(values),
        has_trace_content=_is_true(values, "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"),
        log_level=_level(values.get("KAIS_LOG_LEVEL") or "INFO"),
    )


def _is_true(values: Mapping[str, str], name: str) -> bool:
    return values.get(name, "").strip().lower() == "true"


def _required(values: Mapping[str, str], name: str) -> str:
    value = values.get(name)
    if not value:
        raise _invalid(f"{name} is not set; the agent runtime runs in the pod of a cell")
    return value


def _spec(values: Mapping[str, str]) -> str:
    file = values.get(labels.ENV_CELL_SPEC_FILE)
    if not file:
        return _required(values, labels.ENV_CELL_SPEC)
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise _invalid(f"{labels.ENV_CELL_SPEC_FILE}: cannot read {file}: {exc}") from exc


def _path(values: Mapping[str, str], name: str) -> Path | None:
    value = values.get(name)
    return Path(value) if value else None


def _max_cost(values: Mapping[str, str]) -> Decimal | None:
    """Return the limit of this pod; an empty one is an error, because its annotation is missing."""
    if values.get(labels.ENV_MAX_COST) == "":
        raise _invalid(
            f"{labels.ENV_MAX_COST} is empty; the pod has lost its annotation {labels.MAX_COST}"
        )
    return _optional_cost(values, labels.ENV_MAX_COST)


def _optional_cost(values: Mapping[str, str], name: str) -> Decimal | None:
    value = values.get(name)
    if not value:
        return None
    try:
        cost = Decimal(value)
    except InvalidOperation:
        cost = Decimal("NaN")
    if not cost.is_finite() or cost < 0:
        raise _invalid(f"{name} is {value!r}; it must be an amount in US dollars such as 0.25")
    return cost


def _result_bytes(values: Mapping[str, str]) -> int:
    value = values.get(labels.ENV_RESULT_BYTES) or str(_RESULT_BYTES)
    if not value.isdecimal() or int(value) < agent_results.MIN_BYTES:
        raise _invalid(
            f"{labels.ENV_RESULT_BYTES} is {value!r}; it must be {agent_results.MIN_BYTES} or more"
        )
    return int(value)


def _port(value: str) -> int:
    if not value.isdecimal() or int(value) > _MAX_PORT:
        raise _invalid(f"{labels.ENV_A2A_PORT} is {value!r}; it must be a port")
    return int(value)


def _level(value: str) -> str:
    if value not in _LEVELS:
        raise _invalid(f"KAIS_LOG_LEVEL is {value!r}; it must be one of {', '.join(_LEVELS)}")
    return value


def _invalid(message: str) -> AgentError:
    return AgentError(FailureClass.INVALID_CONFIGURATION, message)
