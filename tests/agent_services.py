"""Cells in mode Service on a real web server, spoken to by the SDK's own client."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import httpx2
import uvicorn
from a2a.client import Client, ClientConfig, create_client
from a2a.client.card_resolver import parse_agent_card
from a2a.types import (
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    Task,
)
from google.protobuf.json_format import MessageToDict

from agent_runtime import assembly, mind
from agent_runtime import settings as agent_settings
from agent_runtime.assembly import Connections
from agent_runtime.model_http import ModelKey
from agent_runtime.service import server
from agent_runtime.state import State
from agent_runtime.telemetry import Traces
from kais import a2a
from tests.agent_attempts import IMPATIENT, PRICES, cell_spec
from tests.fakes.tickets import Tickets, ticket
from tests.model_server import script
from tests.model_server.app import ModelServer
from tests.model_server.journal import Entry

PATIENCE_S = 30


@dataclass
class ServiceWorld:
    """The pod of a Service cell, and what it talks to."""

    folder: Path
    rules: str
    spec: dict[str, Any] = field(default_factory=lambda: {**cell_spec(), "mode": "Service"})
    environment: dict[str, str] = field(default_factory=dict)
    knowledge: httpx.AsyncBaseTransport | None = None
    peers: httpx.AsyncBaseTransport | None = None
    cell: str = "critic-0"
    traces: Traces | None = None

    def __post_init__(self) -> None:
        self.models = ModelServer(script.parse(self.rules))
        self.tickets = Tickets(self.cell)
        self.workspace = self.folder / "workspace"
        for name in ("shared", f"private/{self.cell}"):
            (self.workspace / name).mkdir(parents=True, exist_ok=True)

    @property
    def calls(self) -> list[Entry]:
        """What the model server was sent."""
        return self.models.journal.entries

    def variables(self) -> dict[str, str]:
        """The environment of the pod."""
        return {
            "CELL_NAME": self.cell,
            "CELL_NAMESPACE": "demo",
            "CELL_SPEC": json.dumps(self.spec),
            "KAIS_AGENT_STATE": str(self.folder / "state"),
            "KAIS_WORKSPACE": str(self.workspace),
            "KAIS_PRICES": PRICES,
            **self.environment,
        }

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Running]:
        """Serve the cell during the block."""
        configured = agent_settings.from_environment(self.variables())
        transport: httpx2.AsyncBaseTransport = httpx2.ASGITransport(self.models.app())
        client = None
        if configured.knowledge_url is not None:
            client = assembly.knowledge_client(
                configured.knowledge_url,
                token_file=None,
                connections=Connections(knowledge=self.knowledge),
            )
        app = server.create_app(
            server.Cell(
                settings=configured,
                config=mind.load(configured),
                key=ModelKey(configured.key_file),
                connections=Connections(
                    model=transport, policy=IMPATIENT, peers=self.peers, traces=self.traces
                ),
                verifier=self.tickets,
                knowledge=client,
            )
        )
        async with serving(app) as url:
            yield Running(url, self, app.state.cell_state)


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    """Serve an application on a free port of the loopback address."""
    web = uvicorn.Server(
        uvicorn.Config(app, port=0, log_config=None, lifespan="on", timeout_graceful_shutdown=1)
    )
    web.config.load()
    web.lifespan = web.config.lifespan_class(web.config)
    await web.startup()
    loop = asyncio.create_task(web.main_loop())
    port = web.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        web.should_exit = True
        await loop
        await web.shutdown()


@dataclass
class Running:
    """A cell that serves."""

    url: str
    world: ServiceWorld
    state: State | None = None

    @asynccontextmanager
    async def client(
        self, text: str | None = None, *, binding: str = "JSONRPC", streaming: bool = True
    ) -> AsyncIterator[Client]:
        """The SDK's client, with the ticket of the operator or another one."""
        headers = {a2a.TICKET_HEADER: text or ticket()}
        async with httpx.AsyncClient(headers=headers, timeout=PATIENCE_S) as http:
            card_response = await http.get(f"{self.url}{a2a.CARD_PATH}")
            card = card_from(card_response.json(), self.url)
            config = ClientConfig(
                streaming=streaming, httpx_client=http, supported_protocol_bindings=[binding]
            )
            yield await create_client(card, config)

    def http(self, text: str | None = None) -> httpx.AsyncClient:
        """A plain client with a ticket."""
        headers = {a2a.TICKET_HEADER: text or ticket(), "A2A-Version": "1.0"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=PATIENCE_S)


class Network(httpx.AsyncBaseTransport):
    """The network of the namespace: sends requests for a host to a server of the test."""

    def __init__(self, **servers: str) -> None:
        self.servers = {name.replace("_", "-"): httpx.URL(url) for name, url in servers.items()}
        self.hosts: list[str] = []
        self._inner = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.hosts.append(request.url.host)
        server = self.servers.get(request.url.host)
        if server is None:
            raise httpx.ConnectError("no such host")
        request.url = request.url.copy_with(host=server.host, port=server.port)
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


def card_from(value: dict[str, Any], url: str) -> Any:
    """Read a card, with its interfaces at the address that the test knows."""
    card = parse_agent_card(value)
    for interface in card.supported_interfaces:
        interface.url = url + a2a.interface_path(interface.url)
    return card


def message(text: str, *, id: str | None = None, context: str = "", **metadata: Any) -> Message:  # noqa: A002
    """A message of a user."""
    built = Message(
        message_id=id or str(uuid.uuid4()),
        context_id=context,
        role=Role.ROLE_USER,
        parts=[Part(text=text)],
    )
    if metadata:
        built.metadata.update(metadata)
    return built


def request(sent: Message, *, returns: bool = False) -> SendMessageRequest:
    """The request that sends a message."""
    return SendMessageRequest(
        message=sent, configuration=SendMessageConfiguration(return_immediately=returns)
    )


async def collect(events: AsyncIterator[StreamResponse]) -> list[StreamResponse]:
    """Read a stream to its end."""
    return [event async for event in events]


def last_state(events: list[StreamResponse]) -> int:
    """The state that a stream ended with."""
    states = [
        event.task.status.state if event.HasField("task") else event.status_update.status.state
        for event in events
        if event.HasField("task") or event.HasField("status_update")
    ]
    return states[-1]


def metadata(task: Task) -> dict[str, Any]:
    """The metadata of a task, with whole numbers."""
    value: dict[str, Any] = a2a.whole_numbers(MessageToDict(task.metadata))
    return value


def answer(task: Task) -> str:
    """The text of the answer."""
    return str(task.artifacts[0].parts[0].text)
