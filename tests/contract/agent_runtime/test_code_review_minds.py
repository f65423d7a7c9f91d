"""The review team with minds: four real runtimes, a real knowledge service, a scripted model.

The script is the same for each run. It proves the path from a fact to fewer turns, and not that a
real model takes it.
"""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from a2a.client import Client
from a2a.types import GetTaskRequest, Message, Task, TaskState

from kais import a2a, verdicts
from knowledge_client import AsyncKnowledgeClient
from knowledge_client.models import FactIn
from knowledge_service.asgi_app import create_app
from tests.agent_attempts import user_text
from tests.agent_services import (
    Network,
    ServiceWorld,
    answer,
    collect,
    message,
    metadata,
    request,
)
from tests.contract.service.callers import CALLERS
from tests.fakes.identity import NamedCallers
from tests.fakes.store import MemoryStore
from tests.fakes.tickets import ticket
from tests.knowledge_builders import LEAD, run_in
from tests.model_server import script
from tests.model_server.app import ModelServer

EXAMPLE = Path(__file__).parents[3] / "examples/code-review-team"
ROUTES = {
    "lead-0": ["critic-0", "safety-0", "tests-0"],
    "critic-0": ["lead-0"],
    "safety-0": ["lead-0"],
    "tests-0": ["lead-0"],
}
CODE = 'def total(orders=[]):\n    return eval("+".join(orders))\n'
OBJECTIVE = f"Review this change of app/orders.py.\n{CODE}"


def manifests(name: str) -> list[dict[str, Any]]:
    return [body for body in yaml.safe_load_all((EXAMPLE / name).read_text()) if body]


def rules() -> str:
    config = next(body for body in manifests("scripted-model.yaml") if body["kind"] == "ConfigMap")
    text = str(config["data"]["script.yaml"])
    return text.replace("keys: [scripted-key]\n", "")  # these cells have no Secret


def specs() -> dict[str, dict[str, Any]]:
    """The cells of the Blueprint, with the values of its parameters."""
    values = {"provider": "openai", "model": "house", "baseUrl": "http://model.example/v1"}
    cells = manifests("minds.yaml")[0]["spec"]["formation"]["cells"]
    return {
        f"{cell['name']}-0": {**cell["spec"], "mind": cell["spec"]["mind"] | values}
        for cell in cells
    }


def criteria() -> str:
    """What the critic judges by."""
    completion = manifests("minds.yaml")[0]["spec"]["mission"]["completion"]
    assert completion["review"]["reviewer"] == "critic"
    return str(completion["review"]["criteria"])


class Team(httpx.AsyncBaseTransport):
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
                role="cell",
                name="lead",
                cell="lead-0",
                callee=call["to"],
                hops=["lead-0"],
                **claims,
            )
            body = {"ticket": issued, "expires_at": "2099-01-01T00:00:00Z"}
            return httpx.Response(200, json=body)
        request.headers["Authorization"] = "Bearer first use"
        if request.url.path == "/v1/recall":
            question = json.loads(await request.aread())
            assert json.loads(question.pop("ticket"))["run_id"] == question["run"]
            # The ticket is that of the tests, which the service did not issue.
            headers = {"Authorization": "Bearer first use"}
            request = httpx.Request("POST", request.url, json=question, headers=headers)
        return await self.inner.handle_async_request(request)


@dataclass(frozen=True)
class Run:
    """What a run of the team took, over all its cells."""

    answer: str
    verdict: verdicts.AgentVerdict
    rules: list[str]
    turns: int
    tokens: int
    first_message: str = field(compare=False)


async def completed(client: Client, sent: Message) -> Task:
    """Send a message and wait for the end of its task."""
    events = await collect(client.send_message(request(sent)))
    task = await client.get_task(GetTaskRequest(id=events[0].task.id))
    assert task.status.state == TaskState.TASK_STATE_COMPLETED
    return task


async def review(folder: Path, knowledge: Team, run_id: str, *, arm: str = "on") -> Run:
    """Let the team review the change once; each run has new pods, and only facts stay."""
    folder = folder / run_id
    folder.mkdir()
    routes = folder / "routes.json"
    routes.write_text(json.dumps(ROUTES))
    await knowledge.operator.put_run(run_id, run_in(arm=arm))
    models = ModelServer(script.parse(rules()))
    clients: dict[str, Client] = {}
    turns = 0
    network = Network()
    environment = {
        "KAIS_FORMATION": "team",
        "KAIS_PEERS_FILE": str(routes),
        "KNOWLEDGE_SERVICE_URL": "http://knowledge.example",
        "KNOWLEDGE_SCOPE": LEAD,
    }
    async with AsyncExitStack() as stack:
        for name, spec in sorted(specs().items(), reverse=True):
            world = ServiceWorld(
                folder / name, rules(), spec=spec, environment=environment, knowledge=knowledge,
                peers=network, cell=name,
            )  # fmt: skip
            world.models = models
            running = await stack.enter_async_context(world.running())
            network.servers[f"team-{name}"] = httpx.URL(running.url)
            clients[name] = await stack.enter_async_context(
                running.client(ticket(callee=name, run_id=run_id, arm=arm))
            )
        feedback: str | None = None
        for attempt in (1, 2):
            work = {"feedback": feedback} if feedback else {}
            sent = message(
                OBJECTIVE, id=a2a.message_id(run_id, attempt, "work"), context=run_id,
                **{a2a.WORK_KEY: work},
            )  # fmt: skip
            task = await completed(clients["lead-0"], sent)
            turns += int(metadata(task)[a2a.USAGE_KEY]["turns"])
            parts = {"objective": OBJECTIVE, "criteria": criteria(), "answer": answer(task)}
            sent = message(
                "Review.", id=a2a.message_id(run_id, attempt, "review"), context=run_id,
                **{a2a.WORK_KEY: {"review": parts}},
            )  # fmt: skip
            verdict = verdicts.parse(answer(await completed(clients["critic-0"], sent)))
            if verdict.is_approval:
                break
            feedback = verdict.reasons
    calls = models.journal.entries
    assert turns == sum(str(call.rule).startswith("lead") for call in calls)
    return Run(
        answer(task),
        verdict,
        [str(call.rule) for call in calls],
        len(calls),
        sum((call.input_tokens or 0) + (call.output_tokens or 0) for call in calls),
        user_text(calls[0]),
    )


FIRST = [
    "lead asks about safety",
    "safety reviews",
    "lead asks for tests",
    "tests reviews",
    "lead remembers",
    "lead answers",
    "critic misses a fix",
    "lead adds the fix",
    "critic approves",
]


async def test_second_run_gets_the_fact_of_the_first_and_takes_fewer_turns_and_tokens(
    tmp_path: Path,
) -> None:
    knowledge = Team()
    first = await review(tmp_path, knowledge, "run-1")
    second = await review(tmp_path, knowledge, "run-2")
    assert first.rules == FIRST
    assert first.answer.endswith("Verdict: changes requested")
    assert second.answer == first.answer
    assert second.rules == [
        "lead knows the risk and asks for tests",
        "tests reviews",
        "lead knows the risk and answers",
        "critic approves",
    ]
    assert first.verdict.is_approval
    assert first.verdict.reasons == "Each finding has its line and its fix."
    assert (first.turns, second.turns) == (9, 4)
    assert (first.tokens, second.tokens) == (5880, 2530)


@pytest.mark.parametrize("arm", ["off", "holdout"])
async def test_second_run_without_knowledge_takes_as_many(tmp_path: Path, arm: str) -> None:
    knowledge = Team()
    first = await review(tmp_path, knowledge, "run-1")
    second = await review(tmp_path, knowledge, "run-2", arm=arm)
    assert "passes text of customers to eval" not in second.first_message
    assert second == first


async def test_another_fact_of_equal_length_saves_nothing(tmp_path: Path) -> None:
    knowledge = Team()
    first = await review(tmp_path, knowledge, "run-1")
    page = await knowledge.operator.list_facts()
    (fact,) = page.facts
    other = fact.content.replace("customers to eval", "suppliers to file")
    assert len(other) == len(fact.content)
    replaced = Team()
    await replaced.operator.remember(FactIn(content=other, scope=fact.scope))
    second = await review(tmp_path, replaced, "run-2")
    assert other in second.first_message
    assert second == first
