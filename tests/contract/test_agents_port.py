"""The Agents port against servers of the A2A SDK: one like ours, and one of somebody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import httpx
import pytest
from a2a.helpers.proto_helpers import new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import (
    AgentExecutor,
    RequestContext,
    SimpleRequestContextBuilder,
)
from a2a.server.events import EventQueue
from a2a.server.id_generator import IDGenerator, IDGeneratorContext
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentExtension, AgentInterface, AgentSkill
from a2a.types import TaskState as WireState
from starlette.applications import Starlette

from kais import a2a, trace_context
from kais_operator.agents import client
from kais_operator.agents.client import A2aAgents
from kais_operator.planning.agent_tasks import AgentReply, TaskState
from kais_operator.planning.plan import AgentAddress, AgentCall, ObjectRef, SendMessage
from tests.fakes.clock import FakeClock
from tests.fakes.knowledge import FakeKnowledge

CELL = ObjectRef("Cell", "demo", "lead")
MISSION = ObjectRef("Mission", "demo", "work")
USAGE = {"inputTokens": 900, "outputTokens": 60, "turns": 3, "toolCalls": 2, "cost": "0.00114"}


class _Fixed(IDGenerator):
    def __init__(self, value: str) -> None:
        self.value = value

    def generate(self, context: IDGeneratorContext) -> str:
        return self.value


class _DerivedIds(SimpleRequestContextBuilder):
    """Opens tasks under the ids that follow from messages, as the agent runtime does."""

    async def build(self, context: Any, params: Any = None, **options: Any) -> RequestContext:
        if params is not None:
            self._task_id_generator = _Fixed(a2a.task_id(a2a.OPERATOR, params.message.message_id))
        return await super().build(context, params, **options)


@dataclass
class Server(AgentExecutor):
    """An A2A server whose tasks end when a test says so."""

    is_ours: bool
    url: str = "http://elsewhere.example:1/rpc"
    texts: list[str] = field(default_factory=list)
    metadata: list[Any] = field(default_factory=list)
    tickets: list[str] = field(default_factory=list)
    traces: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    cancelled: int = 0
    usage: Any = field(default_factory=lambda: USAGE)
    peer_usage: Any = field(default_factory=dict)
    finish: asyncio.Event = field(default_factory=asyncio.Event)
    status: int = 200
    streaming: bool = False
    streams: int = 0
    clock: FakeClock = field(default_factory=FakeClock)

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.texts.append(context.get_user_input())
        assert context.message is not None
        assert context.task_id is not None
        assert context.context_id is not None
        self.metadata.append(context.message.metadata)
        task = new_task_from_user_message(context.message)
        task.id, task.context_id = context.task_id, context.context_id
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.start_work()
        await self.finish.wait()
        await updater.add_artifact([new_text_part("notes")], name="notes")
        await updater.add_artifact([new_text_part("The disk was full.")], name="answer")
        metadata = (
            {
                a2a.USAGE_KEY: self.usage,
                a2a.PEER_USAGE_KEY: self.peer_usage,
                a2a.RECEIPTS_KEY: [7, "r\n", "r-9"],
            }
            if self.is_ours
            else None
        )
        await updater.update_status(
            WireState.TASK_STATE_COMPLETED, new_text_message("done"), metadata=metadata
        )

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.cancelled += 1
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        await updater.update_status(
            WireState.TASK_STATE_CANCELED, metadata={a2a.USAGE_KEY: self.usage}
        )

    def app(self) -> Any:
        """Return the ASGI app; its card names another host."""
        uris = [a2a.IDEMPOTENCY_EXTENSION, a2a.HEARTBEAT_EXTENSION] if self.is_ours else []
        card = AgentCard(
            name="lead", description="explains", version="1",
            supported_interfaces=[
                AgentInterface(url=self.url, protocol_binding="JSONRPC", protocol_version="1.0")
            ],
            capabilities=AgentCapabilities(
                streaming=self.streaming,
                extensions=[AgentExtension(uri=uri) for uri in uris]
            ),
            skills=[AgentSkill(id="e", name="explain", description="explains", tags=["logs"])],
            default_input_modes=["text/plain"], default_output_modes=["text/plain"],
        )  # fmt: skip
        handler = DefaultRequestHandler(
            self,
            InMemoryTaskStore(),
            card,
            request_context_builder=_DerivedIds() if self.is_ours else None,
        )
        routes = [*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/rpc")]
        app = Starlette(routes=routes)

        async def recorded(scope: Any, receive: Any, send: Any) -> None:
            headers = dict(scope["headers"])
            host = headers[b"host"].decode()
            self.paths.append(f"{host}{scope['path']}")
            if b"text/event-stream" in headers.get(b"accept", b""):
                self.streams += 1
            if scope["path"] == "/rpc":
                self.traces.append(headers.get(b"traceparent", b"").decode())
                self.tickets.append(headers[a2a.TICKET_HEADER.lower().encode()].decode())
            if self.status != 200:
                response = {"type": "http.response.start", "status": self.status, "headers": []}
                await send(response)
                await send({"type": "http.response.body", "body": b"<html>"})
                return
            await app(scope, receive, send)

        return recorded


Connect = Callable[[Server], A2aAgents]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    opened: list[A2aAgents] = []
    clock = FakeClock()

    def make(server: Server) -> A2aAgents:
        transport = httpx.ASGITransport(server.app())
        server.clock = clock
        agents = A2aAgents(
            transport,
            FakeKnowledge(clock=clock),
            is_leader=lambda: True,
            clock=clock,
            follows=True,
        )
        opened.append(agents)
        return agents

    yield make
    for agents in opened:
        await agents.close()


def call(attempt: int = 1) -> AgentCall:
    address = AgentAddress(CELL, "lead", 8080, "/", "system:serviceaccount:demo:lead")
    return AgentCall(
        MISSION, address, "run-1", attempt, a2a.message_id("run-1", attempt, "work"), "on", "1.5"
    )


async def until(
    agents: A2aAgents, is_reached: Callable[[AgentReply], bool], asked: AgentCall | None = None
) -> AgentReply:
    for _ in range(1000):
        reply = await agents.reply_to(asked or call())
        await asyncio.sleep(0.01)
        if is_reached(reply):
            return reply
    raise AssertionError(f"the last reply was {reply}")


def is_working(reply: AgentReply) -> bool:
    return reply.task is not None and reply.task.state is TaskState.WORKING


def has_ended(reply: AgentReply) -> bool:
    return reply.task is not None and reply.task.state is TaskState.COMPLETED


async def test_each_request_to_a_cell_carries_the_trace_of_its_run(connect: Connect) -> None:
    server = Server(True)
    agents = connect(server)
    traced = replace(call(), traceparent=trace_context.derive("run-1"))
    agents.send(SendMessage(traced, "why is it down?", {}))
    await until(agents, is_working, traced)
    server.finish.set()
    await until(agents, has_ended, traced)
    traced_requests = [trace for trace in server.traces if trace]  # others ask without one
    assert len(traced_requests) >= 2, "the message, and the question for its task"
    assert set(traced_requests) == {trace_context.derive("run-1")}


@pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "foreign"])
async def test_message_opens_one_task_whose_answer_is_read(connect: Connect, is_ours: bool) -> None:
    server = Server(is_ours)
    agents = connect(server)
    unknown = await agents.reply_to(call())
    assert (unknown.task, unknown.problem, unknown.is_idempotent) == (None, None, is_ours)
    agents.send(SendMessage(call(), "why is it down?", {"feedback": "look again"}))
    await until(agents, is_working)
    server.finish.set()
    reply = await until(agents, has_ended)
    assert reply.task is not None
    assert reply.task.answer == "The disk was full."
    assert (reply.task.usage is not None) is is_ours
    assert reply.task.receipt == ("r-9" if is_ours else None)
    if reply.task.usage is not None:
        assert (reply.task.usage.turns, str(reply.task.usage.cost)) == (3, "0.00114")
    assert server.texts == ["why is it down?"]
    assert server.metadata[0]["https://kais.io/a2a/work/v1"]["feedback"] == "look again"
    assert set(server.tickets) == {"for system:serviceaccount:demo:lead"}


async def test_only_the_path_of_a_card_is_used(connect: Connect) -> None:
    server = Server(is_ours=True, url="https://evil.example:9/rpc")
    agents = connect(server)
    await agents.reply_to(call())
    assert {path.partition("/")[0] for path in server.paths} == {"lead.demo.svc:8080"}


@pytest.mark.parametrize("is_ours", [True, False], ids=["by its id", "in the list of the run"])
async def test_operator_that_lost_its_memory_finds_the_task(*, is_ours: bool) -> None:
    server = Server(is_ours=is_ours)
    app = server.app()
    clock = FakeClock()

    def operator() -> A2aAgents:
        return A2aAgents(
            httpx.ASGITransport(app), FakeKnowledge(clock=clock), is_leader=lambda: True,
            clock=clock,
        )  # fmt: skip

    first = operator()
    first.send(SendMessage(call(), "why?"))
    await until(first, is_working)
    await first.close()
    second = operator()
    assert is_working(await second.reply_to(call()))
    server.finish.set()
    await until(second, has_ended)
    await second.close()


async def test_task_is_cancelled(connect: Connect) -> None:
    server = Server(is_ours=True)
    agents = connect(server)
    agents.send(SendMessage(call(), "why?"))
    await until(agents, is_working)
    await agents.cancel(call())
    assert server.cancelled == 1
    server.status = 503
    reply = await agents.reply_to(call())
    assert reply.is_cancel_sent
    assert reply.task is not None
    assert (reply.task.state, reply.task.usage is not None) == (TaskState.CANCELED, True)
    server.finish.set()


async def test_server_that_does_not_cancel_is_known_to_have_been_asked(connect: Connect) -> None:
    server = Server(is_ours=True)
    agents = connect(server)
    server.status = 503
    await agents.cancel(call())
    assert (await agents.reply_to(call())).is_cancel_sent


@pytest.mark.parametrize("status", [302, 401, 500, 503])
async def test_answer_that_is_no_a2a_is_a_problem_and_no_error(
    connect: Connect, status: int
) -> None:
    server = Server(is_ours=True)
    server.status = status
    reply = await connect(server).reply_to(call())
    assert reply.task is None
    assert reply.problem is not None
    assert str(status) in reply.problem


async def test_process_that_does_not_lead_sends_nothing() -> None:
    server, clock = Server(is_ours=True), FakeClock()
    agents = A2aAgents(
        httpx.ASGITransport(server.app()), FakeKnowledge(clock=clock), is_leader=lambda: False,
        clock=clock,
    )  # fmt: skip
    agents.send(SendMessage(call(), "why?"))
    assert not (await agents.reply_to(call())).is_sending
    await agents.close()
    assert server.texts == []


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        ("9e999999", None),
        ("1e-999999", None),
        ("9e8", Decimal(10**9 - 1)),
        ("1e-18", Decimal("2e-12")),
    ],
)
async def test_usage_of_an_untrusted_server_is_bounded(
    connect: Connect, cost: str, expected: Decimal | None
) -> None:
    usage = {**USAGE, "cost": cost, "estimatedCost": cost}
    server = Server(is_ours=True, usage=usage, peer_usage={"worker-0": usage})
    agents = connect(server)
    agents.send(SendMessage(call(), "why?"))
    server.finish.set()
    reply = await until(agents, has_ended)
    assert reply.task is not None
    assert (reply.task.usage and reply.task.usage.cost) == expected


async def test_message_whose_ticket_is_invalid_is_refused(connect: Connect) -> None:
    agents = connect(Server(is_ours=True))
    budget = "0." + 28 * "3"
    agents.send(SendMessage(replace(call(), budget_left=budget), "why?"))
    reply = await until(agents, lambda reply: reply.refusal is not None)
    assert "budget_left" in (reply.refusal or "")


class Unreachable(httpx.AsyncBaseTransport):
    """A way to a server whose connections fail while a test says so."""

    def __init__(self, server: Server) -> None:
        self._inner = httpx.ASGITransport(server.app())
        self.error: Exception | None = None
        self.after_card = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        is_card = request.method == "GET"
        if self.error is not None and not (is_card and self.after_card):
            raise self.error
        return await self._inner.handle_async_request(request)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("after_card", [True, False])
@pytest.mark.parametrize(
    ("error", "never_left"),
    [
        (httpx.ConnectError("All connection attempts failed"), True),
        (httpx.ConnectTimeout("too slow"), True),
        (httpx.ReadError("reset"), False),
        (httpx.ReadTimeout("no answer"), False),
    ],
)
async def test_message_is_undelivered_if_it_never_had_a_connection(
    error: Exception, never_left: bool, after_card: bool, is_first: bool
) -> None:
    server, clock = Server(is_ours=False), FakeClock()
    transport = Unreachable(server)
    transport.error, transport.after_card = error, after_card
    agents = A2aAgents(
        transport, FakeKnowledge(clock=clock), is_leader=lambda: True, clock=clock
    )  # fmt: skip
    agents.send(SendMessage(call(), "why?", is_first=is_first))
    await until(agents, lambda reply: not reply.is_sending)
    transport.error = None
    clock.advance(11)  # a cell that gave no answer in time is asked again after a pause
    never_sent = is_first and (never_left or not after_card)
    assert agents.is_undelivered(call()) is never_sent
    reply = await agents.reply_to(call())
    assert (reply.task, reply.problem, reply.is_undelivered) == (None, None, never_sent)
    agents.send(SendMessage(call(), "why?"))
    await until(agents, is_working)
    assert not agents.is_undelivered(call())
    server.finish.set()
    await agents.close()


async def test_end_of_a_task_of_our_runtime_comes_with_the_answer_to_its_message(
    connect: Connect,
) -> None:
    server = Server(is_ours=True, streaming=True)
    agents = connect(server)
    noticed: asyncio.Queue[ObjectRef] = asyncio.Queue()
    agents.on_end(noticed.put_nowait)
    agents.send(SendMessage(call(), "why?"))
    await until(agents, is_working)
    server.clock.advance(7)
    assert is_working(await agents.reply_to(call()))
    server.finish.set()
    async with asyncio.timeout(10):
        assert await noticed.get() == MISSION
    server.status = 503
    server.clock.advance(61)  # the card is read again after a minute
    assert has_ended(await agents.reply_to(call())), "nothing has to be asked any more"
    assert (server.streams, noticed.qsize()) == (0, 0)


async def test_message_does_not_wait_for_its_task_if_nothing_follows_tasks() -> None:
    server, clock = Server(is_ours=True), FakeClock()
    agents = A2aAgents(
        httpx.ASGITransport(server.app()), FakeKnowledge(clock=clock), is_leader=lambda: True,
        clock=clock, follows=False,
    )  # fmt: skip
    agents.send(SendMessage(call(), "why?"))
    await until(agents, lambda reply: is_working(reply) and not reply.is_sending)
    server.finish.set()
    await agents.close()


async def test_message_does_not_wait_for_its_task_while_as_many_as_allowed_do(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MAX_FOLLOWED", 1)
    server = Server(is_ours=True)
    agents = connect(server)
    for attempt in (1, 2):
        agents.send(SendMessage(call(attempt), "why?"))
    await until(agents, lambda _: len(server.texts) == 2)
    await until(agents, lambda reply: is_working(reply) and reply.is_sending)
    await until(agents, lambda reply: not reply.is_sending, call(2))
    server.finish.set()


async def test_awaited_tasks_leave_no_place_to_followed_ones(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MAX_FOLLOWED", 1)
    server = Server(is_ours=True, streaming=True)
    agents = connect(server)
    agents.send(SendMessage(call(1), "why?"))
    await until(agents, lambda reply: is_working(reply) and reply.is_sending)
    agents.send(SendMessage(call(2), "why?"))
    await until(agents, lambda reply: is_working(reply) and not reply.is_sending, call(2))
    server.clock.advance(7)
    for _ in range(10):
        assert is_working(await agents.reply_to(call(2)))
        await asyncio.sleep(0)
    assert server.streams == 0
    server.finish.set()


async def test_nothing_awaits_a_task_whose_end_was_polled() -> None:
    server, clock = Server(is_ours=True), FakeClock()
    inner = httpx.ASGITransport(server.app())
    ended: asyncio.Queue[str] = asyncio.Queue()

    async def answer(request: httpx.Request) -> httpx.Response:
        if b"SendMessage" not in request.content:
            return await inner.handle_async_request(request)
        delivery = asyncio.ensure_future(inner.handle_async_request(request))
        try:
            await asyncio.Event().wait()
        finally:
            await delivery
            ended.put_nowait("the connection that was dropped silently")
        raise AssertionError

    agents = A2aAgents(
        httpx.MockTransport(answer), FakeKnowledge(clock=clock), is_leader=lambda: True,
        clock=clock, follows=True,
    )  # fmt: skip
    agents.send(SendMessage(call(), "why?"))
    await until(agents, is_working)
    server.finish.set()
    await until(agents, has_ended)
    async with asyncio.timeout(10):
        await ended.get()
    await agents.close()


async def test_task_that_works_longer_than_its_message_waits_is_followed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, clock = Server(is_ours=True, streaming=True), FakeClock()
    inner = httpx.ASGITransport(server.app())
    messages = []
    minute_over = asyncio.Event()

    async def answer(request: httpx.Request) -> httpx.Response:
        response = asyncio.ensure_future(inner.handle_async_request(request))
        if b"SendMessage" not in request.content:
            return await response
        messages.append(response)
        await minute_over.wait()
        raise httpx.ReadTimeout("no answer within a minute", request=request)

    agents = A2aAgents(
        httpx.MockTransport(answer), FakeKnowledge(clock=clock), is_leader=lambda: True,
        clock=clock, follows=True,
    )  # fmt: skip
    noticed: asyncio.Queue[ObjectRef] = asyncio.Queue()
    agents.on_end(noticed.put_nowait)
    agents.send(SendMessage(call(), "why?"))
    await until(agents, is_working)
    clock.advance(61)
    minute_over.set()
    await until(agents, lambda reply: not reply.is_sending)
    assert not agents.is_undelivered(call())
    await until(agents, lambda _: server.streams > 0)
    server.finish.set()
    async with asyncio.timeout(10):
        assert await noticed.get() == MISSION
    assert has_ended(await agents.reply_to(call()))
    assert "not answered" not in caplog.text
    await asyncio.gather(*messages)
    await agents.close()


async def test_end_of_a_task_is_noticed_without_another_question(connect: Connect) -> None:
    server = Server(is_ours=False, streaming=True)
    agents = connect(server)
    noticed: asyncio.Queue[ObjectRef] = asyncio.Queue()
    agents.on_end(noticed.put_nowait)
    agents.send(SendMessage(call(), "why?"))
    await until(agents, is_working)
    assert server.streams == 0, "a short task is not worth a connection"
    server.clock.advance(7)
    for _ in range(3):
        assert is_working(await agents.reply_to(call()))
    await until(agents, lambda _: server.streams > 0)
    assert (server.streams, noticed.qsize()) == (1, 0)
    server.finish.set()
    async with asyncio.timeout(10):
        assert await noticed.get() == MISSION
    assert has_ended(await agents.reply_to(call()))


async def test_task_of_a_server_without_streams_is_not_followed(connect: Connect) -> None:
    server = Server(is_ours=False)
    agents = connect(server)
    agents.send(SendMessage(call(), "why?"))
    await until(agents, is_working)
    server.clock.advance(7)
    assert is_working(await agents.reply_to(call()))
    server.finish.set()
    await until(agents, has_ended)
    assert server.streams == 0


async def test_stream_that_ends_before_its_task_is_not_opened_again_at_once() -> None:
    server, clock = Server(is_ours=False, streaming=True), FakeClock()
    inner = httpx.ASGITransport(server.app())
    streams = []

    async def answer(request: httpx.Request) -> httpx.Response:
        if "text/event-stream" not in request.headers.get("accept", ""):
            return await inner.handle_async_request(request)
        streams.append(request)
        return httpx.Response(200, headers={"Content-Type": "text/event-stream"})

    agents = A2aAgents(
        httpx.MockTransport(answer), FakeKnowledge(clock=clock), is_leader=lambda: True,
        clock=clock, follows=True,
    )  # fmt: skip
    noticed: asyncio.Queue[ObjectRef] = asyncio.Queue()
    agents.on_end(noticed.put_nowait)
    agents.send(SendMessage(call(), "why?"))
    await until(agents, is_working)
    clock.advance(7)
    await agents.reply_to(call())
    async with asyncio.timeout(10):
        await noticed.get()
    for _ in range(5):
        await agents.reply_to(call())
    assert len(streams) == 1
    clock.advance(31)
    await agents.reply_to(call())
    async with asyncio.timeout(10):
        await noticed.get()
    assert len(streams) == 2
    server.finish.set()
    await agents.close()


class AnswerDuringQuestion(httpx.AsyncBaseTransport):
    """Lets a message be answered while its state is asked: after the task, before the card."""

    def __init__(self, server: Server) -> None:
        self._inner = httpx.ASGITransport(server.app())
        self.sent, self._asked, self._answered = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            self.sent.set()
            await self._asked.wait()
            response = await self._inner.handle_async_request(request)
            self._answered.set()
            return response
        if self.sent.is_set():
            self._asked.set()
            await self._answered.wait()
            for _ in range(100):  # the sender reads its answer
                await asyncio.sleep(0)
        return await self._inner.handle_async_request(request)


@pytest.mark.parametrize("has_ended_at_once", [True, False])
async def test_message_that_is_answered_while_its_state_is_asked_was_delivered(
    *, has_ended_at_once: bool
) -> None:
    """An agent of another project has no ids that the operator could derive, nor a list."""
    server, clock = Server(is_ours=False), FakeClock()
    transport = AnswerDuringQuestion(server)
    agents = A2aAgents(transport, FakeKnowledge(clock=clock), is_leader=lambda: True, clock=clock)
    if has_ended_at_once:
        server.finish.set()
    agents.send(SendMessage(call(), "why?"))
    await transport.sent.wait()
    reply = await agents.reply_to(call())
    assert not reply.is_sending
    assert reply.task is not None
    server.finish.set()
    await agents.close()


class MessageServer(Server):
    """Answers with a message, and has no tasks."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        await event_queue.enqueue_event(new_text_message("The disk was full."))


async def test_message_that_is_answered_while_an_old_card_is_read_again_was_delivered() -> None:
    server, clock = MessageServer(is_ours=False), FakeClock()
    transport = AnswerDuringQuestion(server)
    agents = A2aAgents(transport, FakeKnowledge(clock=clock), is_leader=lambda: True, clock=clock)
    agents.send(SendMessage(call(), "why?"))
    await transport.sent.wait()
    clock.advance(3600)
    reply = await agents.reply_to(call())
    assert reply.problem is None
    assert has_ended(reply)
    await agents.close()


async def test_answer_that_is_read_twice_takes_no_place_of_another(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_MAX_ENDED", 2)
    server = Server(is_ours=True)
    server.finish.set()
    agents = connect(server)
    for attempt in (1, 2):
        agents.send(SendMessage(call(attempt), "why?"))
        await until(agents, has_ended, call(attempt))
    await agents.reply_to(call(2))
    server.status = 503
    assert has_ended(await agents.reply_to(call(1)))


@pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "foreign"])
async def test_answer_can_be_read_again_until_it_is_recorded(
    connect: Connect, is_ours: bool
) -> None:
    """The write that records it may be refused, for example because someone edited the Mission."""
    server = Server(is_ours=is_ours)
    agents = connect(server)
    agents.send(SendMessage(call(), "why?"))
    await until(agents, is_working)
    assert not agents.has_ended(call())
    server.finish.set()
    first = await until(agents, has_ended)
    assert agents.has_ended(call())
    server.status = 503
    second = await agents.reply_to(call())
    assert (second.task, second.problem) == (first.task, None)


async def test_mission_of_another_namespace_reads_no_answer_by_the_id_of_its_message(
    connect: Connect,
) -> None:
    """Users can write any id into the annotations of their missions."""
    server = Server(is_ours=True)
    server.finish.set()
    agents = connect(server)
    agents.send(SendMessage(call(), "why?"))
    await until(agents, has_ended)
    forged = replace(call(), mission=ObjectRef("Mission", "other", "work"))
    server.status = 503
    assert not agents.has_ended(forged)
    assert (await agents.reply_to(forged)).task is None
    await agents.cancel(forged)
    assert has_ended(await agents.reply_to(call()))
