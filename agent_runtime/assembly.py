"""Assembles the parts of a mind: its meter, the client of its model, its knowledge and tools.

Task mode does it once, Service mode for each message.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import httpx
import httpx2

from agent_runtime import model_http
from agent_runtime.call_policy import CallPolicy
from agent_runtime.clock import SystemClock
from agent_runtime.episodes import EpisodeRecorder, mission_refs
from agent_runtime.errors import AgentError
from agent_runtime.events import AgentEvent, EventSink
from agent_runtime.mind import MindConfig
from agent_runtime.model_http import ModelKey
from agent_runtime.money import prices
from agent_runtime.money.ledger import Ledger
from agent_runtime.money.meter import Clock, CostLimits, Meter
from agent_runtime.prompt import Framing
from agent_runtime.server_tools import ServerReports, ServerTools
from agent_runtime.settings import Settings
from agent_runtime.telemetry import TracedTransport, Traces
from agent_runtime.tools.blackboard import Blackboard
from agent_runtime.tools.knowledge import KnowledgeTools
from agent_runtime.tools.peers import PeerCalls
from kais import a2a, names
from kais.agent_results import FailureClass
from kais.agent_tools import AgentTool
from kais.resources.cell_template import Provider
from kais.scopes import Scope
from knowledge_client import AsyncKnowledgeClient, RetryPolicy

if TYPE_CHECKING:
    from agent_runtime.tools.peer_client import PeerApprovals

_KNOWLEDGE_RETRIES: Final = RetryPolicy(deadline_s=20, unavailable_s=10, unregistered_s=20)
_KEY_HEADERS: Final = {Provider.ANTHROPIC: "x-api-key"}
_log = logging.getLogger(__name__)
Tools = dict[AgentTool, Callable[..., Any]]


@dataclass(frozen=True, kw_only=True)
class Connections:
    """The transports, clock, retry policy and traces of the runtime; tests pass their own."""

    model: httpx2.AsyncBaseTransport | None = None
    knowledge: httpx.AsyncBaseTransport | None = None
    peers: httpx.AsyncBaseTransport | None = None
    servers: Callable[[], httpx2.AsyncBaseTransport] | None = None
    clock: Clock = field(default_factory=SystemClock)
    policy: CallPolicy = field(default_factory=CallPolicy)
    traces: Traces | None = None


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """The run that a mind works for; without a run nothing is recorded."""

    run_id: str | None = None
    attempt: int | None = None
    mission_id: str | None = None
    ticket: str | None = None


def open_meter(
    settings: Settings,
    config: MindConfig,
    ledger: Ledger,
    *,
    clock: Clock,
    task: str = "",
    max_task: Decimal | None = None,
) -> Meter:
    """Create the meter of a mind, with the limits of its cell.

    Raises:
        AgentError: Its model has no known price, and there is a budget.
    """
    price = prices.find_price(
        config.provider,
        config.model,
        has_own_endpoint=config.base_url is not None,
        configured=settings.prices,
    )
    limits = CostLimits(
        max_total=config.max_total_cost,
        max_per_hour=config.max_cost_per_hour,
        max_share=settings.max_cost,
        max_task=max_task,
        spent=settings.spent,
        spent_hour=settings.spent_hour,
    )
    return Meter(ledger, price=price, limits=limits, clock=clock, task=task)


def require_key(config: MindConfig, key: ModelKey) -> None:
    """Require the key of a public endpoint.

    Raises:
        AgentError: There is none.
    """
    is_public = config.base_url is None and config.provider is not Provider.OLLAMA
    if is_public and key.read() is None:
        secret_name = f"the Secret {config.secret}" if config.secret else "the Secret of the cell"
        raise AgentError(
            FailureClass.MODEL_UNAUTHORIZED,
            f"there is no key for {config.provider.value}: {secret_name} does not exist in the "
            "namespace, or the key in it is missing or empty",
        )


def model_client(config: MindConfig, key: ModelKey, connections: Connections) -> httpx2.AsyncClient:
    """Create the HTTP client for the model."""
    header = _KEY_HEADERS.get(config.provider, "authorization")
    return model_http.create_client(key, key_header=header, transport=connections.model)


def knowledge_client(
    url: str, *, token_file: str | None, connections: Connections
) -> AsyncKnowledgeClient:
    """Create the client of the knowledge service, which uses the cell's own token."""
    return AsyncKnowledgeClient(
        url,
        token_file=token_file,
        retries=_KNOWLEDGE_RETRIES,
        transport=TracedTransport(connections.knowledge or httpx.AsyncHTTPTransport()),
    )


def knowledge_tools(
    settings: Settings, client: AsyncKnowledgeClient, framing: Framing, run: RunContext
) -> Tools:
    """Return the tools that reach the knowledge service."""
    if settings.scope is None:
        return {}
    return KnowledgeTools(
        client=client,
        framing=framing,
        home=Scope.parse(settings.scope),
        run_id=run.run_id,
        attempt=run.attempt,
        refs=mission_refs({"run": run.run_id, "mission": run.mission_id}),
        ticket=run.ticket,
    ).tools()


def select_tools(config: MindConfig, available: Mapping[AgentTool, Callable[..., Any]]) -> Tools:
    """Return the tools that the spec names, as far as they are available."""
    missing = [tool for tool in config.tools if tool not in available]
    if missing:
        _log.warning("without a knowledge service there is no %s", ", ".join(missing))
    return {tool: available[tool] for tool in config.tools if tool in available}


def blackboard(
    settings: Settings, framing: Framing, connections: Connections, *, run: str, arm: str
) -> Tools:
    """Return the tool that reaches the blackboard of the team."""
    return Blackboard(
        shared=settings.workspace / "shared",
        peers_file=settings.peers_file,
        cell=settings.cell,
        run=run,
        sees_other_runs=arm == "on",
        framing=framing,
        clock=connections.clock,
    ).tools()


def peer_calls(
    settings: Settings,
    connections: Connections,
    *,
    context: str,
    is_stopping: Callable[[], bool] = lambda: False,
    peer_approvals: PeerApprovals | None = None,
) -> PeerCalls:
    """Return what sends questions to the cells of the team; `context` is the conversation."""
    from agent_runtime.tools.peer_client import A2APeers  # noqa: PLC0415 - few tasks need A2A

    def url_of(cell: str) -> str:
        template, _, index = cell.rpartition("-")
        name = names.cell_name(settings.formation or "", template, int(index))
        return f"http://{names.service_name(name)}:{a2a.PORT}"

    return A2APeers(
        url_of,
        context=context,
        transport=TracedTransport(connections.peers or _peer_connection()),
        is_stopping=is_stopping,
        peer_approvals=peer_approvals,
    )


def _peer_connection() -> httpx.AsyncBaseTransport:
    """Return a connection for plain HTTP, as cells serve it; it trusts no certificate.

    To read the certificates of the system takes 20 ms, and every task of a cell opens one.
    """
    no_certificates = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return httpx.AsyncHTTPTransport(verify=no_certificates, trust_env=False)


def open_servers(
    settings: Settings,
    config: MindConfig,
    key: ModelKey,
    framing: Framing,
    *,
    connections: Connections,
    reports: ServerReports,
) -> ServerTools | None:
    """Return the MCP servers of a mind for one task; they are connected when it begins."""
    if not config.servers:
        return None
    from agent_runtime.tools import mcp_servers  # noqa: PLC0415 - most cells need no MCP

    access = mcp_servers.ServerAccess(
        folder=settings.mcp_headers,
        register=key.register,
        mask=key.mask,
        transport=connections.servers or _server_connection,
    )
    return mcp_servers.McpServers(config.servers, access, reports, framing)


def _server_connection() -> httpx2.AsyncBaseTransport:
    return httpx2.AsyncHTTPTransport(trust_env=False)


def open_recorder(
    settings: Settings,
    client: AsyncKnowledgeClient,
    key: ModelKey,
    run: RunContext,
    stack: AsyncExitStack,
    *,
    clock: Clock,
) -> EventSink:
    """Return the sink of events: the record of the run, if there is one."""
    if run.run_id is None:
        return ignore_event
    recorder = EpisodeRecorder(
        client,
        run_id=run.run_id,
        attempt=run.attempt or 1,
        mask=key.mask,
        clock=clock,
        refs=mission_refs({"cell": settings.cell}),
    )
    stack.push_async_callback(recorder.close)
    return recorder.record


def ignore_event(event: AgentEvent) -> None:
    """Drop an event, because there is no run to record it for."""
    del event
