"""A mind in mode Task asks its peers for its run, without a ticket of its own."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx

from kais.agent_results import FailureClass
from tests.agent_attempts import World, cell_spec, system_text
from tests.agent_services import Network, ServiceWorld
from tests.fakes.tickets import ticket

LEAD = """
rules:
  - name: ask
    when: {turn: 1}
    reply:
      tool_calls: [{name: ask_peer, arguments: {peer: critic-0, question: Which port}}]
      usage: {input: 100, output: 10}
  - {name: answer, reply: {text: Done., usage: {input: 9, output: 1}}}
"""
CRITIC = """
rules:
  - {name: port, reply: {text: Port 8443., usage: {input: 50, output: 5}}}
"""


class Knowledge(httpx.AsyncBaseTransport):
    """A knowledge service that issues a ticket for a run to a cell that nobody called."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path != "/v1/peers:ticket":
            return httpx.Response(404)
        call = json.loads(await request.aread())
        self.requests.append(call)
        issued = ticket(
            role="cell",
            name="system:serviceaccount:demo:team-lead-0",
            cell="lead-0",
            callee=call["to"],
            run_id=call["run_id"],
            attempt=call["attempt"],
            hops=["lead-0"],
            **({"budget_left": call["budget_left"]} if call.get("budget_left") else {}),
        )
        return httpx.Response(200, json={"ticket": issued, "expires_at": "2099-01-01T00:00:00Z"})


def lead(folder: Path, network: Network, knowledge: Knowledge, **environment: str) -> World:
    """The pod of the second attempt of a lead, whose only peer is the critic."""
    folder.mkdir()
    routes = folder / "routes.json"
    routes.write_text(json.dumps({"lead-0": ["critic-0"], "critic-0": ["lead-0"]}))
    return World(
        folder,
        LEAD,
        spec=cell_spec(tools=[{"name": "ask_peer"}]),
        knowledge=knowledge,
        peers=network,
        environment={
            "CELL_NAME": "lead-0",
            "KAIS_ATTEMPT": "2",
            "KAIS_FORMATION": "team",
            "KAIS_PEERS_FILE": str(routes),
            "KNOWLEDGE_SERVICE_URL": "http://knowledge.example",
            **environment,
        },
    )


def tool_text(world: World) -> str:
    """What the tool returned to the model."""
    messages = world.calls[-1].request["messages"]
    return "\n".join(str(entry["content"]) for entry in messages if entry["role"] == "tool")


async def test_a_peer_answers_a_task_and_its_cost_counts_for_the_run(tmp_path: Path) -> None:
    critic = ServiceWorld(tmp_path / "critic", CRITIC)
    knowledge = Knowledge()
    async with critic.running() as peer:
        world = lead(tmp_path / "lead", Network(team_critic_0=peer.url), knowledge)
        result = await world.run()
    assert (result.failure, result.answer) == (None, "Done.")
    assert tool_text(world) == '<peer name="critic-0">Port 8443.</peer>'
    assert "You may ask these agents: critic-0." in system_text(world.calls[0])
    [request] = knowledge.requests
    assert (request["to"], request["run_id"], request["attempt"]) == ("critic-0", "run-1", 2)
    assert request.get("ticket") is None
    own_cost, cost_of_peer = Decimal("0.000219"), Decimal("0.0001")
    assert result.usage.cost == own_cost + cost_of_peer
    assert (result.usage.turns, result.usage.input_tokens) == (3, 159)


async def test_a_peer_may_spend_what_the_budget_of_the_run_leaves(tmp_path: Path) -> None:
    critic = ServiceWorld(tmp_path / "critic", CRITIC)
    knowledge = Knowledge()
    async with critic.running() as peer:
        network = Network(team_critic_0=peer.url)
        world = lead(tmp_path / "lead", network, knowledge, KAIS_MAX_COST="0.5")
        result = await world.run()
    assert result.failure is None
    [request] = knowledge.requests
    assert request["budget_left"] == "0.4998"


async def test_a_task_counts_the_cost_of_its_peer_before_its_next_call(tmp_path: Path) -> None:
    critic = ServiceWorld(tmp_path / "critic", CRITIC.replace("input: 50", "input: 50000"))
    async with critic.running() as peer:
        network = Network(team_critic_0=peer.url)
        world = lead(tmp_path / "lead", network, Knowledge(), KAIS_MAX_COST="0.0501")
        result = await world.run()
    assert len(world.calls) == 1
    assert result.failure is not None
    assert result.failure.reason is FailureClass.BUDGET
    assert result.failure.message.startswith(
        "the budget of the run is $0.0501, of which $0.05025 is spent or reserved"
    )


async def test_a_task_that_is_stopped_cancels_its_question(tmp_path: Path) -> None:
    endless = "{text: 'word ', endless: true, chunk_delay_s: 0.01}"
    critic = ServiceWorld(tmp_path / "critic", f"rules:\n  - {{name: endless, reply: {endless}}}")
    async with critic.running() as peer:
        world = lead(tmp_path / "lead", Network(team_critic_0=peer.url), Knowledge())
        attempt = asyncio.create_task(world.run())
        assert await asyncio.to_thread(critic.models.journal.has_calls.wait, 20)
        attempt.cancel()
        await asyncio.gather(attempt, return_exceptions=True)
        assert peer.state is not None
        assert peer.state.open_tasks() == []
    assert attempt.cancelled()
