"""Speaks A2A to a peer: its card is untrusted, its answers are bounded, no redirect is followed.

An answer may be any JSON. The SDK and protobuf raise one of `_NOT_A2A` for what is no A2A. They are
caught only around what reads an answer; anywhere else they are defects of the runtime.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import httpx
from a2a.client import Client, ClientConfig, create_client
from a2a.client.card_resolver import parse_agent_card
from a2a.client.errors import A2AClientError
from a2a.helpers.proto_helpers import get_artifact_text, get_message_text, new_text_part
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    Task,
    TaskState,
)
from a2a.utils.errors import A2AError
from google.protobuf.json_format import MessageToDict, ParseError

from agent_runtime.errors import AgentError, ToolError
from agent_runtime.tools.peers import PeerAnswer, PeerUnavailable, Tickets, UsageReport
from kais import a2a, agent_results, approvals, names
from kais.agent_results import AgentFailure, AgentUsage, FailureClass
from kais.approvals import CallApproval
from kais.resources.formation import MAX_CELLS
from knowledge_client.responses import retry_after_s

MAX_NAMES: Final = 64
"""Cells whose usage a report on a question names; what others used counts as that of the peer."""
RESPONSE_BYTES: Final = 2 * 1024 * 1024
PEER_S: Final = 840.0
"""How long an answer may take; the timeout of the tool is a little longer."""
POLL_S: Final = 1.0
RETRY_S: Final = 30.0
"""The longest wait between two tries, also if the peer asks for more."""
REACH_S: Final = 60.0
"""How long a peer may be unreachable before it accepts the question, as during a restart.

Afterwards only `PEER_S` limits the wait, because the peer works on the question.
"""
TICKET_S: Final = 40.0
"""Age from which a ticket is replaced; it lives for 60 s."""
_SERVER_ERROR: Final = 500
_BINDINGS: Final = ("JSONRPC", "HTTP+JSON")
_NOT_A2A: Final = (
    ParseError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    RecursionError,
    httpx.InvalidURL,
)
_FINAL: Final = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_REJECTED,
        TaskState.TASK_STATE_INPUT_REQUIRED,
        TaskState.TASK_STATE_AUTH_REQUIRED,
    }
)
_log = logging.getLogger(__name__)


class A2APeers:
    """Sends questions to the cells of a team; `url_of` returns the address of a cell.

    A question that gets no answer is canceled at the peer. When this server stops, the question is
    not canceled: it is asked again after the restart, and gets the answer of the same task.
    """

    def __init__(
        self,
        url_of: Callable[[str], str],
        *,
        context: str,
        transport: httpx.AsyncBaseTransport | None = None,
        is_stopping: Callable[[], bool] = lambda: False,
        peer_approvals: PeerApprovals | None = None,
    ) -> None:
        self._url_of = url_of
        self._peer_approvals = peer_approvals
        self._is_stopping = is_stopping
        self._context = context
        self._transport = transport

    async def ask(
        self, cell: str, question: str, *, message: str, tickets: Tickets, report: UsageReport
    ) -> PeerAnswer:
        """Send a question, and wait for the answer.

        Raises:
            PeerUnavailable: The peer cannot be reached, or does not speak A2A 1.0.
        """
        sent = Message(
            message_id=message,
            context_id=self._context,
            role=Role.ROLE_USER,
            parts=[new_text_part(question)],
        )
        inner = self._transport or httpx.AsyncHTTPTransport(trust_env=False)
        http = httpx.AsyncClient(
            transport=_BoundedTransport(inner),
            timeout=httpx.Timeout(30, connect=5),
            follow_redirects=False,
            trust_env=False,
        )
        try:
            async with http, asyncio.timeout(PEER_S) as limit:
                call = _Call(http, self._url_of(cell), tickets, report, self._is_stopping)
                calls = _WaitingCalls(self._peer_approvals, message, cell, limit)
                return await call.run(sent, cell, calls)
        except TimeoutError as exc:
            raise PeerUnavailable(f"gave no answer within {PEER_S:.0f} s") from exc


@dataclass(frozen=True)
class PeerApprovals:
    """Receives the tool calls of peers that need an approval.

    Attributes:
        save: stores the calls of peers for a message; the latest report counts.
        changed: called after a change.
    """

    save: Callable[[str, Sequence[CallApproval]], None]
    changed: Callable[[], Awaitable[None]]


class _WaitingCalls:
    """The tool calls that wait or waited for a person while a peer works on one question.

    The calls of the peer's own peers are included. While a call waits, the deadline of the answer
    is extended.
    """

    def __init__(
        self, peer_approvals: PeerApprovals | None, message: str, cell: str, limit: asyncio.Timeout
    ) -> None:
        self._peer_approvals = peer_approvals
        self._message = message
        self._cell = cell
        self._limit = limit
        self._reported: tuple[CallApproval, ...] = ()

    async def report(self, task: Task) -> bool:
        """Report the calls of a task; return whether the peer waits for a person to decide."""
        with _reading_answer():
            calls = _reported_calls(task, self._cell)
        if self._peer_approvals is not None and calls != self._reported:
            self._peer_approvals.save(self._message, calls)
            self._reported = calls
            await self._peer_approvals.changed()
        is_asking = task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        if not is_asking or all(call.outcome is not None for call in calls):
            return False
        self._limit.reschedule(asyncio.get_running_loop().time() + PEER_S)
        return True

    def drop(self) -> None:
        """Forget the waiting calls, because the question will get no answer."""
        if self._peer_approvals is not None and self._reported:
            decided = [call for call in self._reported if call.outcome is not None]
            self._peer_approvals.save(self._message, decided)


class _Call:
    """One question to one peer."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        url: str,
        tickets: Tickets,
        report: UsageReport,
        is_stopping: Callable[[], bool],
    ) -> None:
        self._http = http
        self._url = url
        self._tickets = tickets
        self._report = report
        self._is_stopping = is_stopping
        self._own: AgentUsage | None = None
        self._asked: dict[str, AgentUsage] = {}
        self._reported: dict[str, AgentUsage] = {}
        self._reach_s: float | None = REACH_S
        self._ticket_at = -TICKET_S

    async def run(self, sent: Message, cell: str, calls: _WaitingCalls) -> PeerAnswer:
        await self._renew()
        card = await self._retry(lambda: _fetch_card(self._http, self._url))
        client = await _connect(card, self._http)
        request = SendMessageRequest(
            message=sent, configuration=SendMessageConfiguration(return_immediately=True)
        )
        is_repeatable = any(
            extension.uri == a2a.IDEMPOTENCY_EXTENSION for extension in card.capabilities.extensions
        )
        task = await self._retry(lambda: _send(client, request), is_repeatable=is_repeatable)
        if isinstance(task, PeerAnswer):
            return task
        self._reach_s = None
        try:
            self._count(task, cell)
            while await calls.report(task) or task.status.state not in _FINAL:
                await asyncio.sleep(POLL_S)
                await self._renew()
                get = functools.partial(client.get_task, GetTaskRequest(id=task.id))
                task = await self._retry(get)
                self._count(task, cell)
        except asyncio.CancelledError:
            if not self._is_stopping():
                calls.drop()
                await self._cancel(client, task.id, cell)
            raise
        except Exception:
            calls.drop()
            await self._cancel(client, task.id, cell)
            raise
        with _reading_answer():
            return _answer(task)

    def _count(self, task: Task, cell: str) -> None:
        """Report the usage of a task if it has changed.

        A task without usage of the peer itself keeps the one of before, and so does a task that
        names no cell with usage. A cell that is missing beside others is dropped.
        """
        with _reading_answer():
            metadata = a2a.whole_numbers(MessageToDict(task.metadata))
            self._own = _usage(metadata.get(a2a.USAGE_KEY)) or self._own
            self._asked = _asked_usages(metadata.get(a2a.PEER_USAGE_KEY), cell) or self._asked
            usages = _bounded(cell, self._own, self._asked)
        if usages != self._reported:
            self._report(usages)
            self._reported = usages

    async def _cancel(self, client: Client, task: str, cell: str) -> None:
        with contextlib.suppress(
            TimeoutError, PeerUnavailable, A2AError, httpx.HTTPError, AgentError
        ):
            async with asyncio.timeout(5):
                with contextlib.suppress(ToolError):  # the ticket of before may still serve
                    await self._renew()
                with _reading_answer():
                    canceled = await client.cancel_task(CancelTaskRequest(id=task))
                self._count(canceled, cell)

    async def _renew(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._ticket_at >= TICKET_S:
            self._http.headers[a2a.TICKET_HEADER] = await self._tickets()
            self._ticket_at = now

    async def _retry(self, call: Callable[[], Any], *, is_repeatable: bool = True) -> Any:
        now_s = asyncio.get_running_loop().time
        started_s, wait_s = now_s(), POLL_S
        while True:
            try:
                with _reading_answer():
                    return await call()
            except (A2AError, httpx.HTTPError) as exc:
                delay_s = min(RETRY_S, max(wait_s, _requested_s(exc)))
                is_late = (
                    self._reach_s is not None and now_s() + delay_s - started_s > self._reach_s
                )
                if _is_refusal(exc) or is_late or not is_repeatable:
                    raise PeerUnavailable(_problem(exc)) from exc
            await asyncio.sleep(delay_s)
            await self._renew()
            wait_s *= 2


@contextlib.contextmanager
def _reading_answer() -> Iterator[None]:
    """Turn what the SDK and protobuf raise for an answer that is no A2A into `PeerUnavailable`."""
    try:
        yield
    except _NOT_A2A as exc:
        _log.debug("an answer of a peer", exc_info=True)
        raise PeerUnavailable(
            f"answers with something else than A2A 1.0 ({type(exc).__name__})"
        ) from exc


async def _send(client: Client, request: SendMessageRequest) -> Task | PeerAnswer:
    async for event in client.send_message(request):
        if event.HasField("task"):
            return event.task
        if event.HasField("message"):
            return PeerAnswer(text=get_message_text(event.message))
    raise PeerUnavailable("answered with neither a task nor a message")


async def _fetch_card(http: httpx.AsyncClient, url: str) -> AgentCard:
    response = await http.get(f"{url}{a2a.CARD_PATH}")
    if response.is_redirect:
        raise PeerUnavailable("answers with a redirect, which is not followed")
    response.raise_for_status()
    try:
        card = parse_agent_card(json.loads(response.content))
        for interface in card.supported_interfaces:
            interface.url = f"{url}{a2a.interface_path(interface.url)}"
    except _NOT_A2A as exc:
        raise PeerUnavailable(f"has no valid agent card: {exc}") from exc
    return card


async def _connect(card: AgentCard, http: httpx.AsyncClient) -> Client:
    config = ClientConfig(
        streaming=False, httpx_client=http, supported_protocol_bindings=list(_BINDINGS)
    )
    try:
        return await create_client(card, config)
    except _NOT_A2A as exc:
        raise PeerUnavailable(f"names no interface of A2A 1.0 on its agent card: {exc}") from exc


def _answer(task: Task) -> PeerAnswer:
    if task.status.state == TaskState.TASK_STATE_COMPLETED:
        text = "\n".join(get_artifact_text(artifact) for artifact in task.artifacts)
        return PeerAnswer(text=text or get_message_text(task.status.message))
    return PeerAnswer(failure=_failure(task))


def _failure(task: Task) -> AgentFailure:
    value = MessageToDict(task.metadata).get(a2a.FAILURE_KEY)
    text = get_message_text(task.status.message) or TaskState.Name(task.status.state)
    try:
        return AgentFailure(FailureClass(value["class"]), str(value["message"]))
    except (TypeError, KeyError, ValueError):
        return AgentFailure(FailureClass.TOOL_FAILED, text)


def _reported_calls(task: Task, cell: str) -> tuple[CallApproval, ...]:
    """Return the tool calls that a task of a cell reports, each with the cell that makes it."""
    reported = MessageToDict(task.metadata).get(a2a.APPROVALS_KEY)
    values = reported if isinstance(reported, list) else []
    parsed = [approvals.parse_call(call) for call in values[-approvals.MAX_APPROVALS :]]
    return tuple(
        replace(call, cell=call.cell or cell)
        for call in parsed
        if call is not None and approvals.is_of(call)
    )


def _usage(value: Any) -> AgentUsage | None:
    with contextlib.suppress(ValueError, ArithmeticError, TypeError, AttributeError):
        return None if value is None else agent_results.parse_usage(value)
    return None


def _asked_usages(value: Any, cell: str) -> dict[str, AgentUsage]:
    """Return the usage of the cells that a peer has asked; a formation has `MAX_CELLS` at most."""
    reported = value.items() if isinstance(value, dict) else ()
    usages = {name: _usage(usage) for name, usage in itertools.islice(reported, MAX_CELLS)}
    return {name: usage for name, usage in usages.items() if usage is not None and name != cell}


def _bounded(
    cell: str, own: AgentUsage | None, asked: Mapping[str, AgentUsage]
) -> dict[str, AgentUsage]:
    """Return usages by name, that of the peer last; it contains what is not named."""
    usages: dict[str, AgentUsage] = {}
    for name, usage in sorted(asked.items()):
        if len(usages) < MAX_NAMES - 1 and names.is_dns_label(name):
            usages[name] = usage
        else:
            own = _sum(own or AgentUsage(), usage)
    return usages if own is None else {**usages, cell: own}


def _sum(usage: AgentUsage, other: AgentUsage) -> AgentUsage:
    """Add two usages up; a figure that is more than a usage can be becomes the most it can be."""
    total = usage + other
    return replace(
        total,
        input_tokens=min(total.input_tokens, agent_results.MAX_COUNT),
        output_tokens=min(total.output_tokens, agent_results.MAX_COUNT),
        turns=min(total.turns, agent_results.MAX_COUNT),
        tool_calls=min(total.tool_calls, agent_results.MAX_COUNT),
        cost=min(total.cost, agent_results.MAX_COST),
        estimated_cost=min(total.estimated_cost, agent_results.MAX_COST),
    )


def _response(error: Exception) -> httpx.Response | None:
    for candidate in (error, error.__cause__):
        if isinstance(candidate, httpx.HTTPStatusError):
            return candidate.response
    return None


def _http_status(error: Exception) -> int | None:
    response = _response(error)
    return None if response is None else response.status_code


def _requested_s(error: Exception) -> float:
    """Return the wait that the peer asks for, 0 without one."""
    response = _response(error)
    return (response is not None and retry_after_s(response.headers)) or 0.0


def _is_refusal(error: Exception) -> bool:
    """Whether the peer has answered, and would answer the same again."""
    status = _http_status(error)
    if status is not None:
        return status < _SERVER_ERROR
    return isinstance(error, A2AError) and not isinstance(error, A2AClientError)


def _problem(error: Exception) -> str:
    status = _http_status(error)
    text = f"HTTP {status}" if status is not None else " ".join(str(error).split())[:300]
    verb = "refuses the call" if _is_refusal(error) else "does not answer"
    return f"{verb}: {text or type(error).__name__}"


class _BoundedTransport(httpx.AsyncBaseTransport):
    """Ends a response that is too large, or that is encoded and could become so."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["accept-encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise PeerUnavailable("compresses its answer unasked")
        assert isinstance(response.stream, httpx.AsyncByteStream)  # noqa: S101 - of this transport
        response.stream = _BoundedStream(response.stream)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _BoundedStream(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            if size > RESPONSE_BYTES:
                raise PeerUnavailable(f"answers with more than {RESPONSE_BYTES} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
