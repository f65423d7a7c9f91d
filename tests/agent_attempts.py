"""Attempts of a mind against the scripted model server, both in the process of the test."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import httpx2

from agent_runtime import settings as agent_settings
from agent_runtime.assembly import Connections
from agent_runtime.call_policy import CallPolicy
from agent_runtime.model_http import ModelKey
from agent_runtime.task import Attempt
from agent_runtime.telemetry import Traces
from kais.agent_results import AgentResult
from knowledge_client import settings as run_settings
from tests.model_server import script
from tests.model_server.app import ModelServer
from tests.model_server.journal import Entry

URL = "http://model.example/v1"
PRICES = '{"openai/house": {"input": "1", "output": "10"}}'
"""One dollar for a million tokens of input, ten for a million tokens of output."""
IMPATIENT = CallPolicy(tries=3, call_s=5, first_s=0, longest_s=5)


def cell_spec(**changes: Any) -> dict[str, Any]:
    """A cell that thinks with the model `house`; changes replace whole fields of the spec."""
    mind = {
        "provider": "openai",
        "model": "house",
        "systemPrompt": "You review.",
        "baseUrl": URL,
    } | changes.pop("mind", {})
    return {"mode": "Task", "mind": mind, **changes}


@dataclass
class World:
    """The pod of one attempt, and what it talks to."""

    folder: Path
    rules: str
    spec: dict[str, Any] = field(default_factory=cell_spec)
    environment: dict[str, str] = field(default_factory=dict)
    knowledge: httpx.AsyncBaseTransport | None = None
    peers: httpx.AsyncBaseTransport | None = None
    policy: CallPolicy = IMPATIENT
    traces: Traces | None = None

    def __post_init__(self) -> None:
        self.server = ModelServer(script.parse(self.rules))
        self.transport: httpx2.AsyncBaseTransport = httpx2.ASGITransport(self.server.app())
        self.workspace = self.folder / "workspace"
        for name in ("shared", "private/critic-0"):
            (self.workspace / name).mkdir(parents=True, exist_ok=True)

    @property
    def calls(self) -> list[Entry]:
        """What the model server was sent."""
        return self.server.journal.entries

    def variables(self) -> dict[str, str]:
        """The environment of the pod."""
        return {
            "CELL_NAME": "critic-0",
            "CELL_NAMESPACE": "demo",
            "CELL_SPEC": json.dumps(self.spec),
            "KAIS_OBJECTIVE": "Review the change.",
            "KAIS_RUN_ID": "run-1",
            "KAIS_ATTEMPT": "1",
            "KAIS_MISSION": "review",
            "KAIS_AGENT_STATE": str(self.folder / "state"),
            "KAIS_WORKSPACE": str(self.workspace),
            "KAIS_TERMINATION_FILE": str(self.folder / "termination-log"),
            "KAIS_PRICES": PRICES,
            **self.environment,
        }

    async def run(self) -> AgentResult:
        """Run the attempt."""
        variables = self.variables()
        configured = agent_settings.from_environment(variables)
        attempt = Attempt(
            configured,
            run_settings.from_environment(variables),
            ModelKey(configured.key_file),
            Connections(
                model=self.transport,
                knowledge=self.knowledge,
                peers=self.peers,
                policy=self.policy,
                traces=self.traces,
            ),
        )
        try:
            return await attempt.run()
        finally:
            attempt.close()

    def run_now(self) -> AgentResult:
        """Run the attempt from a test without a loop."""
        return asyncio.run(self.run())


def user_text(entry: Entry) -> str:
    """The text of the user's messages of a call."""
    texts = [m["content"] for m in entry.request["messages"] if m["role"] == "user"]
    return "\n".join(text if isinstance(text, str) else json.dumps(text) for text in texts)


def system_text(entry: Entry) -> str:
    """The instructions of a call."""
    texts = [
        m["content"] for m in entry.request["messages"] if m["role"] in ("system", "developer")
    ]
    return "\n".join([*texts, str(entry.request.get("system", ""))])
