"""Extraction by a model in tests: a run with a record, a scope with a model, and its server."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import httpx
import yaml

from knowledge_client import AsyncKnowledgeClient
from knowledge_client.models import (
    EpisodeIn,
    EpisodesIn,
    Extraction,
    ExtractionIn,
    Fact,
    ScopeConfig,
)
from knowledge_service.asgi_app import create_app
from knowledge_service.extraction import job
from knowledge_service.extraction.model_client import ModelClient
from knowledge_service.extraction.model_extractor import ModelExtractor
from knowledge_service.extraction.settings import ExtractionSettings, ModelEndpoint
from knowledge_service.ports import Store
from tests.contract.service.callers import CALLERS, Connect
from tests.fakes.identity import NamedCallers
from tests.knowledge_builders import OPERATOR, TEAM, run_in, run_key
from tests.model_server import script as scripts
from tests.model_server.serving import Running

EPISODES = (
    EpisodeIn(type="tool_call", content="connect to postgres:5432"),
    EpisodeIn(type="error", content="connection refused: postgres:5432"),
    EpisodeIn(type="tool_result", content="the service postgres listens on port 6432"),
    EpisodeIn(type="decision", content="changed DATABASE_URL to port 6432; the migration worked"),
)
PORT_FACT = {
    "content": "The service postgres listens on port 6432.",
    "kind": "fact",
    "confidence": 0.95,
    "tags": ["postgres"],
    "episodes": [3],
    "subject": "service postgres",
    "predicate": "listens on",
}
URL_FACT = {
    "content": "The migration worked after DATABASE_URL was changed to port 6432.",
    "kind": "pattern",
    "confidence": 0.6,
    "tags": [],
    "episodes": [4],
    "subject": None,
    "predicate": None,
}
PORT_SUPPORT = ("supported", "the service postgres listens on port 6432")
URL_SUPPORT = ("supported", "changed DATABASE_URL to port 6432; the migration worked")
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def script(*replies: dict[str, Any]) -> str:
    rules = [
        {"name": f"answer {number}", "when": {"times": 1}, "reply": reply}
        for number, reply in enumerate(replies)
    ]
    return yaml.safe_dump({"rules": rules})


def facts_reply(*facts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    usage = {"input": 800, "output": 120}
    return {"text": json.dumps({"facts": facts}), "usage": usage, **fields}


def verdicts_reply(*verdicts: tuple[str, str], **fields: Any) -> dict[str, Any]:
    """Answer with the verdict and the quotation on each statement, in order."""
    answer = [
        {"number": number, "verdict": verdict, "quote": quote, "difference": ""}
        for number, (verdict, quote) in enumerate(verdicts, 1)
    ]
    usage = {"input": 900, "output": 80}
    return {"text": json.dumps({"verdicts": answer}), "usage": usage, **fields}


class World:
    """A run with its record, in a scope that chose the model `small`."""

    def __init__(self, store: Store, server: Running, connect: Connect) -> None:
        self.store, self.server, self.connect = store, server, connect
        self.now = NOW
        self.client = ModelClient()

    def models(self, *, budget: str | None = None, **fields: Any) -> job.Models:
        endpoint = {
            "name": "small", "url": f"{self.server.url}/v1", "api": "openai", "model": "tiny",
            "input_price": Decimal(1), "output_price": Decimal(4), "max_tokens": 1000,
            "is_verifying": False, **fields,
        }  # fmt: skip
        settings = ExtractionSettings(
            {"small": ModelEndpoint(**endpoint)}, Decimal(budget) if budget else None
        )
        return job.Models(ModelExtractor(settings, self.client), lambda: self.now)

    async def close_run(self, run_id: str = "r", episodes: Any = EPISODES) -> None:
        operator = self.connect("operator")
        self.store.put_scope(
            TEAM, ScopeConfig.model_validate({"extraction": {"model": "small"}}), actor=OPERATOR
        )
        await operator.put_run(run_id, run_in(mission="m-1"))
        await operator.add_episodes(EpisodesIn(run_id=run_id, episodes=tuple(episodes)))
        await operator.put_run(run_id, run_in(outcome="Succeeded"))
        await operator.start_extraction(ExtractionIn(run_id=run_id))

    def extract(self, models: job.Models | None, run_id: str = "r") -> Extraction:
        """Run the job as the two workers do: first by rules, then by the model."""
        extraction = job.run_extraction(self.store, run_key(run_id), models)
        if extraction.state == "pending" and extraction.calls == 0:
            extraction = job.run_extraction(self.store, run_key(run_id), models)
        return extraction

    async def facts(self, extraction: Extraction) -> list[Fact]:
        operator = self.connect("operator")
        return [await operator.get_fact(fact_id) for fact_id in extraction.facts]


def play(server: Running, *replies: dict[str, Any]) -> None:
    server.server.script = scripts.parse(script(*replies))
    server.server.journal.reset()


def replaying(world: World, models: job.Models | None) -> AsyncKnowledgeClient:
    app = create_app(world.store, NamedCallers(CALLERS), models=models)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return AsyncKnowledgeClient("http://service", token="operator", transport=transport)
