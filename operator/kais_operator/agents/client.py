"""The Agents port: messages to cells, their tasks, and the tickets that they require.

Messages are sent in the background, because a server that is not ours may answer only when its work
is done. The state of a message is lost when this process ends. The tasks of our own runtime are
then read by their ids, which follow from the message.

If the transport allows it, the answer to a message to our own runtime is awaited for a minute: it
arrives when the task ends, and contains the result. A task that works without such a request is
followed by its event stream, whose end only triggers a read of the task. Without either, tasks are
polled.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar

import httpx
import pydantic
from a2a.client import A2ACardResolver, Client, ClientCallContext, ClientConfig, create_client
from a2a.client.errors import AgentCardResolutionError
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
)
from a2a.utils import errors as a2a_errors
from google.protobuf import json_format

from kais import a2a, trace_context
from kais.approvals import ApprovalDecision
from kais_operator.agents import request_failures, task_reader
from kais_operator.agents.request_failures import FAILURES, REFUSALS, REQUEST_TIMEOUT_S
from kais_operator.agents.silent_cells import SilentCells
from kais_operator.agents.transport import ZonedTimes
from kais_operator.planning.agent_tasks import ENDED, WAITING_FOR_PEOPLE, AgentReply, AgentTask
from kais_operator.planning.plan import AgentCall, ObjectRef, SendMessage
from kais_operator.ports import Clock, Knowledge
from knowledge_client import models

logger = logging.getLogger(__name__)

_Key = tuple[ObjectRef, str]
K = TypeVar("K")
V = TypeVar("V")
_SEND_S = 3600.0
"""Timeout of a message: a server that is not ours may answer only when its work is done."""
_TICKET_RESERVE = timedelta(seconds=15)
_CARD_AGE = timedelta(seconds=60)
MAX_FOLLOWED = 100
"""The maximum number of awaited or followed tasks, each with a connection; others are polled."""
_AWAIT_S = 60.0
"""How long the answer to a message is awaited: networks may drop idle connections."""
_FOLLOWED_AFTER = timedelta(seconds=6)
"""A task is followed after working for this long; before, it is polled at least every 1.5 s."""
_FOLLOW_PAUSE = timedelta(seconds=30)
"""Pause before a task whose stream ended early is followed again."""
_MAX_KEPT = 2000
"""The maximum number of messages, of cards and of tickets in memory; arbitrary."""
_MAX_ENDED = 100
"""The maximum number of ended tasks in memory, each with up to 128 KiB of text; arbitrary."""


@dataclass
class _Sent:
    """A message that this process sent.

    Attributes:
        sending: runs until the server has answered.
        is_awaited: whether the server was told to answer when the task has ended.
        server_task: the id of the task, if the server chose it.
        answer: the task that has ended, or the answer of a server that opened none.
        refusal: why the server refused the message.
        is_undelivered: whether no server ever got the message.
        is_cancel_sent: whether the server was asked to cancel the task.
    """

    sending: asyncio.Task[None] | None = None
    is_awaited: bool = False
    server_task: str | None = None
    answer: AgentTask | None = None
    refusal: str | None = None
    is_undelivered: bool = False
    is_cancel_sent: bool = False

    @property
    def is_sending(self) -> bool:
        return self.sending is not None and not self.sending.done()


@dataclass(frozen=True)
class _Card:
    card: AgentCard
    read_at: datetime


class A2aAgents:
    """Speaks to the A2A servers of cells; `close` it."""

    def __init__(
        self,
        transport: httpx.AsyncBaseTransport,
        knowledge: Knowledge,
        *,
        is_leader: Callable[[], bool],
        clock: Clock,
        follows: bool = False,
    ) -> None:
        self._http = httpx.AsyncClient(
            transport=ZonedTimes(transport), follow_redirects=False, timeout=REQUEST_TIMEOUT_S
        )
        self._knowledge = knowledge
        self._is_leader = is_leader
        self._clock = clock
        self._sent: dict[_Key, _Sent] = {}
        self._ended: dict[_Key, AgentTask] = {}
        self._cards: dict[str, _Card] = {}
        self._tickets: dict[tuple[str, str, int, str | None], models.Ticket] = {}
        self._silent_cells = SilentCells(clock)
        self._follows = follows
        self._followed: dict[_Key, asyncio.Task[None]] = {}
        self._follow_at: dict[_Key, datetime] = {}
        self._on_end: Callable[[ObjectRef], None] = lambda _: None

    async def reply_to(self, call: AgentCall) -> AgentReply:
        """Return what the cell reports about a message; an error becomes its `problem`.

        The task of a message that was answered can be read again, because the write that records it
        may be refused.
        """
        sent = self._sent.get(_key(call)) or _Sent()
        ended = self._ended_task(call)
        if ended is not None:
            self._end(call, ended)
            return self._known(call, sent, task=ended)
        silence = self._silent_cells.problem_of(_base(call))
        if silence is not None:
            return self._known(call, sent, problem=silence)
        was_sending = sent.is_sending
        try:
            await self._ticket(call)  # before the cell is timed: the service may be what hangs
            with self._silent_cells.request(_base(call)):
                async with asyncio.timeout(REQUEST_TIMEOUT_S):
                    card = await self._card(call, is_fresh=False)
                    task = await self._task(call, card, sent)
                    if task is None:  # whether it may be sent again must not depend on an old card
                        card = await self._card(call, is_fresh=True)
                    if task is None and was_sending and not sent.is_sending:  # answered meanwhile
                        task = sent.answer or await self._task(call, card, sent)
        except FAILURES as exc:
            return self._known(call, sent, problem=request_failures.describe(exc))
        if task is not None and task.state in ENDED:
            self._end(call, task)
        elif task is not None and task.state not in WAITING_FOR_PEOPLE:
            self._follow(call, card, sent)
        return replace(
            self._known(call, sent, task=task),
            is_idempotent=task_reader.names_extension(card, a2a.IDEMPOTENCY_EXTENSION),
            has_heartbeat=task_reader.names_extension(card, a2a.HEARTBEAT_EXTENSION),
            refusal=sent.refusal,
        )

    def _known(
        self,
        call: AgentCall,
        sent: _Sent,
        *,
        task: AgentTask | None = None,
        problem: str | None = None,
    ) -> AgentReply:
        """Return what this process knows about a message, without the card of the cell."""
        return AgentReply(
            task=task,
            is_sending=sent.is_sending,
            is_undelivered=self.is_undelivered(call),
            is_cancel_sent=sent.is_cancel_sent,
            problem=problem,
        )

    def on_end(self, notify: Callable[[ObjectRef], None]) -> None:
        """Have `notify` called with a mission when the task of one of its messages has ended."""
        self._on_end = notify

    def is_undelivered(self, call: AgentCall) -> bool:
        """Return whether this process knows that no server ever got a message."""
        sent = self._sent.get(_key(call))
        return sent is not None and sent.is_undelivered and not sent.is_sending

    def has_ended(self, call: AgentCall) -> bool:
        """Return whether this process has read how the task of a message ended."""
        return self._ended_task(call) is not None

    def _ended_task(self, call: AgentCall) -> AgentTask | None:
        sent = self._sent.get(_key(call))
        answer = sent.answer if sent is not None else None
        return answer or self._ended.get(_key(call))

    def send(self, message: SendMessage) -> None:
        """Send a message in the background, unless this process is sending it."""
        sent_call = self._sent.get(_key(message.call))
        if not self._is_leader() or (sent_call is not None and sent_call.is_sending):
            return
        _bound(self._sent)
        self._ended.pop(_key(message.call), None)
        is_new = message.is_first or (sent_call is not None and sent_call.is_undelivered)
        sent = self._sent[_key(message.call)] = _Sent(is_undelivered=is_new)
        sent.sending = asyncio.get_running_loop().create_task(self._send(message, sent))

    async def cancel(self, call: AgentCall) -> None:
        """Cancel the task of a message, and remember how it ended for the next `reply_to`.

        There is no second try if the cell does not answer within 5 s.
        """
        if _key(call) not in self._sent:
            _bound(self._sent)
        sent = self._sent.setdefault(_key(call), _Sent())
        sent.is_cancel_sent = True
        if sent.sending is not None:
            sent.sending.cancel()
        try:
            await self._ticket(call)
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                card = await self._card(call, is_fresh=False)
                async with self._client(call, card) as (client, context):
                    identity = await self._server_task(call, card, sent, client, context)
                    if identity is not None:
                        request = CancelTaskRequest(id=identity)
                        task = await client.cancel_task(request, context=context)
                        read = task_reader.read_task(task)
                        sent.answer = read if read.state in ENDED else None
        except (a2a_errors.TaskNotFoundError, a2a_errors.TaskNotCancelableError):
            logger.debug("the task of message %s has ended", call.message_id)
        except FAILURES as exc:
            logger.warning(
                "%s: its task was not cancelled: %s",
                call.address.cell,
                request_failures.describe(exc),
            )

    async def decide(self, call: AgentCall, decision: ApprovalDecision) -> None:
        """Pass on what a person decided about a tool call; repeat this while the call waits."""
        path = f"{call.address.path}{a2a.APPROVALS_PATH.removeprefix('/')}"
        try:
            ticket = await self._ticket(call)
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                response = await self._http.post(
                    f"{_base(call)}{path}",
                    headers={a2a.TICKET_HEADER: ticket},
                    json=asdict(decision),
                )
        except FAILURES as exc:
            logger.warning(
                "%s: decision not sent: %s", call.address.cell, request_failures.describe(exc)
            )
            return
        if response.is_error:
            message = "%s: decision about call %s refused: %s"
            logger.warning(message, call.address.cell, decision.call, response.text[:500])

    def end_all(self) -> None:
        """End all sending, because this process no longer leads."""
        for sent in self._sent.values():
            if sent.sending is not None:
                sent.sending.cancel()
        self._sent.clear()
        self._ended.clear()
        for following in self._followed.values():
            following.cancel()
        self._followed.clear()

    async def close(self) -> None:
        """End all sending and close the connections."""
        running = [sent.sending for sent in self._sent.values() if sent.sending is not None]
        running += self._followed.values()
        self.end_all()
        await asyncio.gather(*running, return_exceptions=True)
        await self._http.aclose()

    async def _send(self, message: SendMessage, sent: _Sent) -> None:
        call, was_undelivered = message.call, sent.is_undelivered
        try:
            await self._deliver(message, sent)
        except (*REFUSALS, pydantic.ValidationError) as exc:
            sent.refusal = request_failures.describe(exc)
            logger.warning(
                "%s: message refused: %s", call.address.cell, request_failures.describe(exc)
            )
        except FAILURES as exc:
            if request_failures.has_no_connection(exc):
                sent.is_undelivered = was_undelivered
            still_works = sent.is_awaited and isinstance(exc.__cause__, httpx.ReadTimeout)
            level = logging.DEBUG if still_works else logging.WARNING
            logger.log(
                level,
                "%s: message not answered: %s",
                call.address.cell,
                request_failures.describe(exc),
            )
        if sent.answer is not None:
            self._on_end(call.mission)

    async def _deliver(self, message: SendMessage, sent: _Sent) -> None:
        call = message.call
        card = await self._card(call, is_fresh=False)
        sent.is_awaited = self._may_await(card)
        timeout_s = _AWAIT_S if sent.is_awaited else _SEND_S
        opened = self._client(call, card, timeout_s=timeout_s, polling=not sent.is_awaited)
        async with opened as (client, context):
            sent.is_undelivered = False
            request = SendMessageRequest(message=_wire_message(message))
            async for event in client.send_message(request, context=context):
                if event.HasField("task"):
                    sent.server_task = event.task.id
                    read = task_reader.read_task(event.task)
                    sent.answer = read if read.state in ENDED else None
                elif event.HasField("message"):
                    sent.answer = task_reader.read_answer(event.message)

    def _may_await(self, card: AgentCard) -> bool:
        """Whether the answer to a message may come when its task ends."""
        is_ours = task_reader.names_extension(card, a2a.IDEMPOTENCY_EXTENSION)
        return self._follows and is_ours and not self._is_full()

    def _is_full(self) -> bool:
        awaited = sum(sent.is_awaited and sent.is_sending for sent in self._sent.values())
        return awaited + len(self._followed) >= MAX_FOLLOWED

    def _follow(self, call: AgentCall, card: AgentCard, sent: _Sent) -> None:
        """Await the end of a task in the background, unless this process does so or just did."""
        is_ours = task_reader.names_extension(card, a2a.IDEMPOTENCY_EXTENSION)
        identity = a2a.task_id(a2a.OPERATOR, call.message_id) if is_ours else sent.server_task
        if not self._follows or not card.capabilities.streaming or identity is None:
            return
        now = self._clock.now()
        if _key(call) not in self._follow_at:
            _bound(self._follow_at)
        follow_at = self._follow_at.setdefault(_key(call), now + _FOLLOWED_AFTER)
        is_awaited = _key(call) in self._followed or (sent.is_awaited and sent.is_sending)
        if now < follow_at or is_awaited or self._is_full() or not self._is_leader():
            return
        awaiting = self._await_end(call, card, identity)
        self._followed[_key(call)] = asyncio.get_running_loop().create_task(awaiting)

    async def _await_end(self, call: AgentCall, card: AgentCard, identity: str) -> None:
        try:
            async with self._client(call, card, timeout_s=_SEND_S, streaming=True) as opened:
                client, context = opened
                request = SubscribeToTaskRequest(id=identity)
                async for _ in client.subscribe(request, context=context):
                    pass
        except (*FAILURES, NotImplementedError) as exc:
            logger.debug("%s: task %s not followed: %s", call.address.cell, identity, exc)
        finally:
            self._followed.pop(_key(call), None)
            self._follow_at[_key(call)] = self._clock.now() + _FOLLOW_PAUSE
        self._on_end(call.mission)

    async def _task(self, call: AgentCall, card: AgentCard, sent: _Sent) -> AgentTask | None:
        async with self._client(call, card) as (client, context):
            identity = await self._server_task(call, card, sent, client, context)
            if identity is None:
                return None
            try:
                task = await client.get_task(GetTaskRequest(id=identity), context=context)
            except a2a_errors.TaskNotFoundError:
                return None
            return task_reader.read_task(task)

    async def _server_task(
        self,
        call: AgentCall,
        card: AgentCard,
        sent: _Sent,
        client: Client,
        context: ClientCallContext,
    ) -> str | None:
        """Return the id of a message's task: derived, named by the server, or found by context."""
        if task_reader.names_extension(card, a2a.IDEMPOTENCY_EXTENSION):
            return a2a.task_id(a2a.OPERATOR, call.message_id)
        if sent.server_task is not None or sent.is_sending:
            return sent.server_task
        try:
            listed = await client.list_tasks(
                ListTasksRequest(context_id=call.run_id, history_length=1000), context=context
            )
        except a2a_errors.A2AError:
            return None
        return next((task.id for task in listed.tasks if _has_message(task, call)), None)

    async def _card(self, call: AgentCall, *, is_fresh: bool) -> AgentCard:
        base = _base(call)
        cached_card, now = self._cards.get(base + call.address.path), self._clock.now()
        if cached_card is not None and not is_fresh and now - cached_card.read_at < _CARD_AGE:
            return cached_card.card
        resolver = A2ACardResolver(
            self._http, base, f"{call.address.path}{a2a.CARD_PATH.removeprefix('/')}"
        )
        card = task_reader.with_address(await resolver.get_agent_card(), base)
        if not card.supported_interfaces:
            raise AgentCardResolutionError("its agent card has no JSON-RPC or REST interface")
        _bound(self._cards)
        self._cards[base + call.address.path] = _Card(card, now)
        return card

    @contextlib.asynccontextmanager
    async def _client(
        self,
        call: AgentCall,
        card: AgentCard,
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
        streaming: bool = False,
        polling: bool = True,
    ) -> AsyncIterator[tuple[Client, ClientCallContext]]:
        parameters = {a2a.TICKET_HEADER: await self._ticket(call)}
        if call.traceparent is not None:
            parameters[trace_context.HEADER] = call.traceparent
        context = ClientCallContext(service_parameters=parameters, timeout=timeout_s)
        settings = ClientConfig(
            streaming=streaming,
            polling=polling,
            httpx_client=self._http,
            supported_protocol_bindings=["JSONRPC", "HTTP+JSON"],
        )
        yield await create_client(card, settings), context

    async def _ticket(self, call: AgentCall) -> str:
        key = (call.address.account, call.run_id, call.attempt, call.budget_left)
        cached_ticket = self._tickets.get(key)
        if cached_ticket is None or cached_ticket.expires_at - self._clock.now() < _TICKET_RESERVE:
            _bound(self._tickets)
            cached_ticket = self._tickets[key] = await self._knowledge.issue_ticket(
                models.TicketIn(
                    to=call.address.account,
                    run_id=call.run_id,
                    attempt=call.attempt,
                    arm=call.arm,
                    budget_left=call.budget_left,
                )
            )
        return cached_ticket.ticket

    def _end(self, call: AgentCall, task: AgentTask) -> None:
        """Replace the state of a message by its ended task, and end the request that awaits it."""
        self._ended.pop(_key(call), None)
        _bound(self._ended, _MAX_ENDED)
        self._ended[_key(call)] = task
        sent = self._sent.pop(_key(call), None)
        if sent is not None and sent.sending is not None:
            sent.sending.cancel()
        self._follow_at.pop(_key(call), None)


def _wire_message(message: SendMessage) -> Message:
    wire = Message(
        message_id=message.call.message_id,
        context_id=message.call.run_id,
        role=Role.ROLE_USER,
        parts=[Part(text=message.text)],
    )
    json_format.ParseDict({a2a.WORK_KEY: dict(message.metadata)}, wire.metadata)
    return wire


def _has_message(task: Task, call: AgentCall) -> bool:
    return any(message.message_id == call.message_id for message in task.history)


def _key(call: AgentCall) -> _Key:
    """Return what identifies a message: users may write the id of another mission on theirs."""
    return call.mission, call.message_id


def _base(call: AgentCall) -> str:
    address = call.address
    return f"http://{address.service}.{address.cell.namespace}.svc:{address.port}"


def _bound(cache: dict[K, V], limit: int = _MAX_KEPT) -> None:
    """Drop the oldest entry of a full dictionary."""
    if len(cache) >= limit:
        cache.pop(next(iter(cache)))
