"""Teams of real runtimes in mode Service, with a real knowledge service and one scripted model."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml
from a2a.client import Client
from a2a.types import GetTaskRequest, Message, Task, TaskState

from knowledge_client import AsyncKnowledgeClient
from knowledge_service.asgi_app import create_app
from tests.agent_services import Network, Running, ServiceWorld, collect, request
from tests.contract.service.callers import CALLERS
from tests.fakes.identity import NamedCallers
from tests.fakes.store import MemoryStore
from tests.fakes.tickets import ticket
from tests.knowledge_builders import LEAD, run_in
from tests.model_server import script
from tests.model_server.app import ModelServer
from tests.model_server.journal import Entry


class TeamKnowledge(httpx.AsyncBaseTransport):
    """The knowledge service as the lead reaches it; tickets are those of the tests."""

    def __init__(self) -> None:
        self.inner = httpx.ASGITransport(create_app(MemoryStore(), NamedCallers(CALLERS)))
        self.operator = AsyncKnowledgeClient(
            "http://service", token="operator", transport=self.inner
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/peers:ticket":
            call = json.loads(await request.aread())
            parent = json.loads(call["ticket"])
            claims = {key: parent[key] for key in ("run_id", "arm") if key in parent}
            issued = ticket(
                role="cell", name="lead", cell="lead-0", callee=call["to"], hops=["lead-0"],
                **claims,
            )  # fmt: skip
            body = {"ticket": issued, "expires_at": "2099-01-01T00:00:00Z"}
            return httpx.Response(200, json=body)
        content = await request.aread()
        if request.url.path == "/v1/recall":
            # The service did not issue the tickets of the tests; the run has the same arm.
            asked = json.loads(content)
            asked.pop("ticket", None)
            content = json.dumps(asked).encode()
        headers = {**request.headers, "authorization": "Bearer first use"}
        headers.pop("content-length", None)
        return await self.inner.handle_async_request(
            httpx.Request(request.method, request.url, headers=headers, content=content)
        )


@dataclass(frozen=True)
class RunningTeam:
    """The cells of a team that work on one run."""

    cells: Mapping[str, Running]
    clients: Mapping[str, Client]
    models: ModelServer

    @property
    def calls(self) -> list[Entry]:
        """What the model server was sent, by all cells."""
        return self.models.journal.entries


@dataclass(frozen=True, kw_only=True)
class TeamRun:
    """One run of a star of cells. Each run has new pods, and only facts stay.

    Attributes:
        specs: the cells by their names in the team, such as `lead-0`.
        hub: the cell that all others may speak to.
    """

    folder: Path
    knowledge: TeamKnowledge
    specs: Mapping[str, dict[str, Any]]
    rules: str
    hub: str
    run_id: str
    arm: str = "on"
    environment: Mapping[str, str] = field(default_factory=dict)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[RunningTeam]:
        """Serve the cells during the block."""
        folder = self.folder / self.run_id
        folder.mkdir()
        routes = {name: [self.hub] for name in self.specs}
        routes[self.hub] = sorted(self.specs.keys() - {self.hub})
        (folder / "routes.json").write_text(json.dumps(routes))
        await self.knowledge.operator.put_run(self.run_id, run_in(arm=self.arm))
        models, network = ModelServer(script.parse(self.rules)), Network()
        variables = {
            "KAIS_FORMATION": "team",
            "KAIS_PEERS_FILE": str(folder / "routes.json"),
            "KNOWLEDGE_SERVICE_URL": "http://knowledge.example",
            "KNOWLEDGE_SCOPE": LEAD,
            **self.environment,
        }
        cells: dict[str, Running] = {}
        clients: dict[str, Client] = {}
        async with AsyncExitStack() as stack:
            for name, spec in sorted(self.specs.items()):
                world = ServiceWorld(
                    folder / name, self.rules, spec=spec, environment=variables,
                    knowledge=self.knowledge, peers=network, cell=name,
                )  # fmt: skip
                world.models = models
                cells[name] = await stack.enter_async_context(world.running())
                network.servers[f"team-{name}"] = httpx.URL(cells[name].url)
                caller = ticket(callee=name, run_id=self.run_id, arm=self.arm)
                clients[name] = await stack.enter_async_context(cells[name].client(caller))
            yield RunningTeam(cells, clients, models)


async def completed(client: Client, sent: Message) -> Task:
    """Send a message and wait for the end of its task."""
    events = await collect(client.send_message(request(sent)))
    task = await client.get_task(GetTaskRequest(id=events[0].task.id))
    assert task.status.state == TaskState.TASK_STATE_COMPLETED
    return task


def manifests(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file of an example."""
    return [body for body in yaml.safe_load_all(path.read_text()) if body]


def rules_of(path: Path) -> str:
    """Return the script of an example, for cells without a Secret."""
    config = next(body for body in manifests(path) if body["kind"] == "ConfigMap")
    return str(config["data"]["script.yaml"]).replace("keys: [scripted-key]\n", "")


def specs_of(path: Path) -> dict[str, dict[str, Any]]:
    """Return the cells of a Blueprint, with the model of the tests."""
    values = {"provider": "openai", "model": "house", "baseUrl": "http://model.example/v1"}
    cells = manifests(path)[0]["spec"]["formation"]["cells"]
    return {
        f"{cell['name']}-0": {**cell["spec"], "mind": cell["spec"]["mind"] | values}
        for cell in cells
    }
