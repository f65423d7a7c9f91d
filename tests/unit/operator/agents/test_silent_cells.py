"""Cells that do not answer hold few reconciles, and missions of one cell share what it costs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from kais import a2a
from kais_operator.agents.client import A2aAgents
from kais_operator.controllers.mission.decide import a2a_attempts
from kais_operator.knowledge import client as knowledge
from kais_operator.manager.workqueue import WorkQueue
from kais_operator.planning.plan import AgentAddress, AgentCall, ObjectRef
from knowledge_client import errors, models
from tests.fakes.clock import FakeClock
from tests.fakes.knowledge import FakeKnowledge

pytestmark = pytest.mark.simulated_time
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class LoopClock(FakeClock):
    """The time of the event loop; the wall clock may be set back."""

    set_back = timedelta()

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.monotonic()) - self.set_back

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


class Silence(httpx.AsyncBaseTransport):
    """A way to cells that take every request and never answer, until a test says so."""

    def __init__(self) -> None:
        self.requests = 0
        self.is_over = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        if not self.is_over:
            await asyncio.Event().wait()
        return httpx.Response(503)


def asked(mission: int, cell: int) -> AgentCall:
    name = f"silent-{cell}"
    address = AgentAddress(
        ObjectRef("Cell", "demo", name), name, 8080, "/", f"system:serviceaccount:demo:{name}"
    )
    run = f"run-{mission}"
    ref = ObjectRef("Mission", "demo", f"m{mission}")
    return AgentCall(ref, address, run, 1, a2a.message_id(run, 1, "work"), "on")


def connected(transport: httpx.AsyncBaseTransport, clock: LoopClock | None = None) -> A2aAgents:
    clock = clock or LoopClock()
    return A2aAgents(transport, FakeKnowledge(clock=clock), is_leader=lambda: True, clock=clock)


@pytest.mark.parametrize("missions", [80, 400])
async def test_objects_of_another_tenant_hardly_wait_for_cells_that_hang(missions: int) -> None:
    agents = connected(Silence())
    loop = asyncio.get_running_loop()
    added_at: dict[ObjectRef, float] = {}
    waits: list[float] = []

    async def reconcile(key: ObjectRef) -> float | None:
        if key.kind != "Mission":
            waits.append(loop.time() - added_at[key])
            return None
        number = int(key.name[1:])
        reply = await agents.reply_to(asked(number, number))
        now = BEGIN + timedelta(seconds=loop.time())
        return a2a_attempts.poll_delay(BEGIN, now, reply).total_seconds()

    queue = WorkQueue(reconcile, monotonic=loop.time, jitter=lambda: 0.5)
    running = asyncio.create_task(queue.run())
    for number in range(missions):
        queue.add(ObjectRef("Mission", "demo", f"m{number}"))
    await asyncio.sleep(150)  # each cell is asked once before it is known to hang
    for number in range(100):
        other = ObjectRef("Cell", "quiet", f"c{number}")
        added_at[other] = loop.time()
        queue.add(other)
        await asyncio.sleep(3)
    queue.stop()
    await running
    await agents.close()
    assert len(waits) == 100
    assert max(waits) < 0.1


async def test_missions_of_a_cell_that_hangs_share_its_questions() -> None:
    transport = Silence()
    agents = connected(transport)
    first = await agents.reply_to(asked(0, 0))
    begin = asyncio.get_running_loop().time()
    for number in range(1, 50):
        assert (await agents.reply_to(asked(number, 0))).problem == first.problem
    assert (asyncio.get_running_loop().time(), transport.requests) == (begin, 1)
    await asyncio.sleep(10)
    replies = await asyncio.gather(*(agents.reply_to(asked(number, 0)) for number in range(50)))
    assert {reply.problem for reply in replies} == {first.problem}
    assert transport.requests == 2
    await agents.close()


async def test_cell_that_answers_again_is_asked_by_all_its_missions() -> None:
    transport = Silence()
    agents = connected(transport)
    await agents.reply_to(asked(0, 0))
    transport.is_over = True
    await asyncio.sleep(10)
    for number in range(5):
        assert "503" in ((await agents.reply_to(asked(number, 0))).problem or "")
    assert transport.requests == 6
    await agents.close()


class HangingKnowledge(FakeKnowledge):
    """A service that answers no call within the operator's limit, until a test says so."""

    is_over = False

    async def issue_ticket(self, call: models.TicketIn) -> models.Ticket:
        if self.is_over:
            return await super().issue_ticket(call)
        await asyncio.sleep(knowledge.TIMEOUT_S)
        error = errors.KnowledgeUnavailable("POST /v1/tickets: no answer")
        raise error from httpx.ReadTimeout("")


def card_and_503(request: httpx.Request) -> httpx.Response:
    """Answer as a cell whose agent card can be read, and nothing else."""
    interface = {"url": "http://lead", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    card = {"name": "lead", "version": "1", "supportedInterfaces": [interface]}
    return httpx.Response(200, json=card) if request.method == "GET" else httpx.Response(503)


async def test_cell_is_not_silent_because_the_knowledge_service_hangs() -> None:
    clock = LoopClock()
    service = HangingKnowledge(clock=clock)
    transport = httpx.MockTransport(card_and_503)
    agents = A2aAgents(transport, service, is_leader=lambda: True, clock=clock)
    reply = await agents.reply_to(asked(0, 0))
    assert reply.problem == "POST /v1/tickets: no answer"
    service.is_over = True
    assert (await agents.reply_to(asked(0, 0))).problem is None
    await agents.close()


async def test_cell_is_asked_again_after_its_pause_though_the_wall_clock_was_set_back() -> None:
    transport, clock = Silence(), LoopClock()
    agents = connected(transport, clock)
    await agents.reply_to(asked(0, 0))
    clock.set_back = timedelta(hours=1)
    await asyncio.sleep(10)
    await agents.reply_to(asked(0, 0))
    assert transport.requests == 2
    await agents.close()
