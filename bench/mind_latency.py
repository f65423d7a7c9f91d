"""What a message to a mind waits for: until the runtime works on it, and for the facts it gets."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator

import httpx
from a2a.client import ClientConfig, create_client
from a2a.types import Message, Part, Role, SendMessageRequest, StreamResponse, TaskState

from bench import mind_team
from bench.figures import milliseconds, quantile, table
from bench.mind_team import NAMESPACE, MindTeam, Program
from bench.texts import Texts
from kais import a2a
from tests.agent_services import card_from

ANSWER = """
rules:
  - name: answer
    reply: {text: "The work is done."}
"""
FACTS, MESSAGES = 100_000, 200
_BATCH, _WARM = 200, 10
_CELL = "mind-0"


def run() -> str:
    """Return the part of the page."""
    return latency(FACTS, MESSAGES)


def latency(facts: int, messages: int) -> str:
    """Send messages one after the other, with facts and without in turn."""
    with mind_team.team(ANSWER, cells=1) as team:
        token = (team.folder / "operator.token").read_text()
        headers = {"Authorization": f"Bearer {token}"}
        url = team.service.ready_url.removesuffix("/readyz")
        with httpx.Client(base_url=url, headers=headers, timeout=60) as service:
            for body in _batches(facts):
                service.post("/v1/facts:batch", json=body).raise_for_status()
        samples = asyncio.run(_send_all(team, url, headers, messages))
        received = [len(entry["request"]["messages"][-1]["content"]) for entry in team.journal()]
    rows = [
        (what, *milliseconds(times))
        for arm, (working, whole) in samples.items()
        for what, times in (
            (f"sent → WORKING, {_ARMS[arm]}", working),
            (f"sent → COMPLETED, {_ARMS[arm]}", whole),
        )
    ]
    added = (
        f"{(quantile(samples['on'][1], share) - quantile(samples['off'][1], share)) * 1000:.1f}"
        for share in (0.5, 0.95)
    )
    rows.append(("facts add", *added, ""))
    head = ("message", "p50 ms", "p95 ms", "p99 ms")
    return (
        f"{messages} messages to one cell, one after the other, every second without facts; "
        f"{facts:,} facts are visible to it. The longest message of a model call had "
        f"{max(received):,} characters, the shortest {min(received):,}.\n\n" + table(head, rows)
    )


_ARMS = {"on": "with facts", "off": "without"}


def _batches(facts: int) -> Iterator[dict[str, object]]:
    texts = Texts(1)
    for start in range(0, facts, _BATCH):
        yield {
            "facts": [
                {"content": texts.fact(number), "scope": f"realm:{NAMESPACE}"}
                for number in range(start, start + _BATCH)
            ]
        }


async def _send_all(
    team: MindTeam, url: str, headers: dict[str, str], messages: int
) -> dict[str, tuple[list[float], list[float]]]:
    samples: dict[str, tuple[list[float], list[float]]] = {arm: ([], []) for arm in _ARMS}
    texts, account = Texts(2), _account(team)
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as service:
        for number in range(messages + _WARM):
            arm = ("on", "off")[number % 2]
            run = uuid.uuid4().hex
            body = {"namespace": NAMESPACE, "scope": f"realm:{NAMESPACE}/cell:{_CELL}", "arm": arm}
            (await service.put(f"/v1/runs/{run}", json=body)).raise_for_status()
            ticket = await service.post("/v1/peers:ticket", json={"to": account, "run_id": run})
            working, whole = await _send(
                team.runtimes[0], ticket.raise_for_status().json()["ticket"], texts.question(), run
            )
            ended = body | {"outcome": "Succeeded"}
            (await service.put(f"/v1/runs/{run}", json=ended)).raise_for_status()
            if number >= _WARM:
                samples[arm][0].append(working)
                samples[arm][1].append(whole)
    return samples


def _account(team: MindTeam) -> str:
    deployment = next(
        item for item in team.items("deployments") if item["metadata"]["name"] == _CELL
    )
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    return f"system:serviceaccount:{NAMESPACE}:{account}"


async def _send(runtime: Program, ticket: str, text: str, run: str) -> tuple[float, float]:
    """Send a message; return the seconds until its task is WORKING, and until it is COMPLETED."""
    message = Message(
        message_id=a2a.message_id(run, 1, "work"),
        context_id=run,
        role=Role.ROLE_USER,
        parts=[Part(text=text)],
    )
    working = 0.0
    state = TaskState.TASK_STATE_UNSPECIFIED
    url = runtime.ready_url.removesuffix(a2a.CARD_PATH)
    async with httpx.AsyncClient(headers={a2a.TICKET_HEADER: ticket}, timeout=60) as http:
        card = await http.get(runtime.ready_url)
        config = ClientConfig(
            streaming=True, httpx_client=http, supported_protocol_bindings=["JSONRPC"]
        )
        client = await create_client(card_from(card.json(), url), config)
        begin = time.perf_counter()
        async for event in client.send_message(SendMessageRequest(message=message)):
            state = _state(event) or state
            if not working and state == TaskState.TASK_STATE_WORKING:
                working = time.perf_counter() - begin
        whole = time.perf_counter() - begin
    if not working or state != TaskState.TASK_STATE_COMPLETED:
        raise SystemExit(f"a message ended as {TaskState.Name(state)}")
    return working, whole


def _state(event: StreamResponse) -> TaskState:
    if event.HasField("task"):
        return event.task.status.state
    return event.status_update.status.state


if __name__ == "__main__":
    print(run())
