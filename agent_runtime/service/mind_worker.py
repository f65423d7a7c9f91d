"""Lets the mind of a cell work on one message: the knowledge for it, its tools, meter and record.

Model, ledger and clients live as long as the process; the rest belongs to one message.
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import pydantic

from agent_runtime import assembly, prompt, telemetry
from agent_runtime.agent import agent_run
from agent_runtime.agent.connection import ConnectedModel
from agent_runtime.agent.frames import PydanticFraming
from agent_runtime.agent.metered_model import Supervision
from agent_runtime.agent_progress import Progress
from agent_runtime.approvals import ApprovalGate, Approvals
from agent_runtime.assembly import Connections, RunContext
from agent_runtime.errors import AgentError
from agent_runtime.events import AgentEvent, EventSink
from agent_runtime.mind import MindConfig
from agent_runtime.model_http import ModelKey
from agent_runtime.money.ledger import Ledger
from agent_runtime.money.meter import Meter
from agent_runtime.prompt import Knowledge, Review, Work
from agent_runtime.server_tools import ServerReports
from agent_runtime.settings import Settings
from agent_runtime.state import State
from agent_runtime.tickets import Caller
from agent_runtime.tools import peers
from agent_runtime.tools.knowledge import recalled_fact
from agent_runtime.tools.peer_client import PeerApprovals
from agent_runtime.tools.peers import PeerTool
from agent_runtime.tools.workspace import Workspace
from kais import agent_results
from kais.agent_results import AgentResult, AgentUsage, Artifact, FailureClass
from kais.resources.knowledge_scope import Injection
from knowledge_client import AsyncKnowledgeClient, errors, models

RECALL_S: Final = 10.0
_QUERY_CHARACTERS: Final = 8192
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """One message to work on.

    Attributes:
        task: id of its task; `context` is its conversation, which is the run.
        work: what the operator adds: `feedback`, recalled facts as `knowledge`, or the limits of
            a recall as `injection`; for a review `objective`, `criteria` and `answer` as `review`.
    """

    task: str
    context: str
    caller: Caller
    text: str
    work: Mapping[str, Any] = field(default_factory=dict)

    @property
    def review(self) -> Mapping[str, Any] | None:
        """The work of another cell that the message asks to review; None for other messages."""
        value = self.work.get("review")
        return value if isinstance(value, dict) else None


@dataclass
class MindWorker:
    """The mind of a cell, ready to work.

    Attributes:
        knowledge: client with the cell's own token; None without a knowledge service.
    """

    settings: Settings
    config: MindConfig
    key: ModelKey
    model: ConnectedModel
    state: State
    connections: Connections
    knowledge: AsyncKnowledgeClient | None = None
    approvals: Approvals = field(init=False)
    servers: ServerReports = field(default_factory=ServerReports)
    _ledger: Ledger | None = None
    _progress: dict[str, Progress] = field(default_factory=dict)
    _receipts: dict[str, list[str]] = field(default_factory=dict)
    _is_stopping: bool = False

    def __post_init__(self) -> None:
        self.approvals = Approvals(self.state, self.connections.clock)

    async def work(
        self, assignment: Assignment, changed: Callable[[], Awaitable[None]]
    ) -> AgentResult:
        """Work on a message; `changed` is called whenever the report of the task changes.

        The report changes when a tool call starts or stops waiting for a person, and when the cost
        of a call of the model is reserved.

        Raises:
            AgentError: The state or the ledger of the cell cannot be used.
        """
        progress = self._progress[assignment.task] = Progress()
        meter = self._meter(assignment)
        framing = PydanticFraming()
        workspace = Workspace(
            shared=self.settings.workspace / "shared",
            private=self.settings.workspace / "private" / self.settings.cell,
            framing=framing,
        )
        failure, answer = None, None
        try:
            with telemetry.attempt(
                self.connections.traces,
                assignment.caller.traceparent,
                run_id=assignment.caller.run_id,
                attempt=assignment.caller.attempt,
            ):
                async with AsyncExitStack() as stack:
                    answer = await self._run(assignment, meter, progress, workspace, stack, changed)
        except AgentError as exc:
            failure = exc.failure
        return AgentResult(
            answer="" if answer is None else self.key.mask(answer.text),
            is_truncated=answer is not None and answer.is_truncated,
            usage=meter.usage(tool_calls=progress.tool_calls),
            failure=failure,
            artifacts=tuple(Artifact(path, size) for path, size in workspace.written_sizes.items()),
        )

    def usage(self, task: str) -> AgentUsage | None:
        """Return what a task has used so far; None if the ledger cannot be read."""
        progress = self._progress.get(task) or Progress()
        try:
            meter = assembly.open_meter(
                self.settings,
                self.config,
                self._open_ledger(),
                clock=self.connections.clock,
                task=task,
            )
            return meter.usage(tool_calls=progress.tool_calls)
        except AgentError as exc:
            _log.warning("the usage of task %s is unknown: %s", task, exc)
            return None

    def peer_usages(self, task: str) -> dict[str, AgentUsage]:
        """Return the usage of the peers that a task has asked, by the name of the cell.

        Raises:
            AgentError: The state cannot be read.
        """
        sums: dict[str, AgentUsage] = {}
        for cell, text in self.state.peer_usages(task):
            usage = agent_results.parse_usage(json.loads(text))
            sums[cell] = sums[cell] + usage if cell in sums else usage
        return sums

    def forget(self, task: str) -> None:
        """Drop the progress of a task whose end is published."""
        self._progress.pop(task, None)

    def stop(self) -> None:
        """Leave questions to peers open from now on: they are asked again after the restart."""
        self._is_stopping = True

    def receipts(self, task: str) -> list[str]:
        """Return the receipts of the recalls for a task, and drop them."""
        return self._receipts.pop(task, [])

    def close(self) -> None:
        """Close the ledger."""
        if self._ledger is not None:
            self._ledger.close()

    async def _run(
        self,
        assignment: Assignment,
        meter: Meter,
        progress: Progress,
        workspace: Workspace,
        stack: AsyncExitStack,
        changed: Callable[[], Awaitable[None]],
    ) -> agent_run.Answer:
        meter.check_price(self.config.model)
        assembly.require_key(self.config, self.key)
        framing = PydanticFraming()
        caller = assignment.caller
        run = RunContext(run_id=caller.run_id, attempt=caller.attempt, ticket=caller.ticket or None)
        available = workspace.tools() | assembly.blackboard(
            self.settings,
            framing,
            self.connections,
            run=caller.run_id or assignment.context,
            arm=caller.arm,
        )
        sink: EventSink = assembly.ignore_event
        if self.knowledge is not None:
            available |= assembly.knowledge_tools(self.settings, self.knowledge, framing, run)
            peer_approvals = PeerApprovals(
                functools.partial(self.state.save_peer_approvals, assignment.task), changed
            )
            available |= self._peer_tool(assignment, meter, framing, self.knowledge, peer_approvals)
            sink = assembly.open_recorder(
                self.settings,
                self.knowledge,
                self.key,
                run,
                stack,
                clock=self.connections.clock,
            )
        servers = assembly.open_servers(
            self.settings,
            self.config,
            self.key,
            framing,
            connections=self.connections,
            reports=self.servers,
        )
        if servers is not None:
            stack.push_async_callback(servers.close)
        supervision = Supervision(
            mind=self.config,
            meter=meter,
            sink=sink,
            framing=framing,
            mask=self.key.mask,
            policy=self.connections.policy,
            traces=self.connections.traces,
            peers=peers.read_peers(self.settings.peers_file, self.settings.cell),
            servers=servers,
            is_review=assignment.review is not None,
            gate=ApprovalGate(
                assignment.task, self.config.approvals, self.approvals, sink, changed
            ),
            reserved=changed,
        )
        tools = assembly.select_tools(self.config, available)
        knowledge = await self._recall(assignment)
        try:
            return await agent_run.run(
                self.model,
                supervision,
                progress=progress,
                message=_message(assignment, knowledge, framing),
                tools=list(tools.values()),
                journal=self.state.journal(assignment.task),
            )
        except AgentError as exc:
            reason = exc.failure.reason
            sink(AgentEvent("error", f"{reason}: {exc.failure.message}", signature=reason.value))
            raise

    async def _recall(self, assignment: Assignment) -> Knowledge:
        """Return the facts for a message: those that the operator sent, or those of a recall.

        If the knowledge service does not answer, the mind works without facts.
        """
        sent = assignment.work.get("knowledge")
        if sent is not None:
            return _parse(sent)
        caller = assignment.caller
        if self.knowledge is None or not self.config.is_injected or caller.arm != "on":
            return Knowledge()
        limits = _limits(assignment.work.get("injection"))
        question = models.RecallIn(
            query=_query(assignment)[:_QUERY_CHARACTERS],
            limit=limits.max_facts,
            max_tokens=limits.max_tokens,
            min_confidence=limits.min_confidence,
            run=caller.run_id,
            attempt=caller.attempt,
            ticket=caller.ticket or None,
        )
        try:
            async with asyncio.timeout(RECALL_S):
                recalled = await self.knowledge.recall(question)
        except (TimeoutError, errors.KnowledgeError) as exc:
            _log.warning("task %s begins without facts: %s", assignment.task, exc)
            return Knowledge()
        if recalled.receipt is not None:
            self._receipts[assignment.task] = [recalled.receipt]
        return Knowledge(recalled.receipt, tuple(recalled_fact(fact) for fact in recalled.facts))

    def _peer_tool(
        self,
        assignment: Assignment,
        meter: Meter,
        framing: PydanticFraming,
        knowledge: AsyncKnowledgeClient,
        peer_approvals: PeerApprovals,
    ) -> assembly.Tools:
        def save_usage(message: str, usages: Mapping[str, AgentUsage]) -> None:
            texts = {
                cell: json.dumps(agent_results.dump_usage(usage)) for cell, usage in usages.items()
            }
            self.state.save_peer_usages(assignment.task, message, texts)
            meter.set_peer_cost(self._peer_cost(assignment.task))

        meter.set_peer_cost(self._peer_cost(assignment.task))
        caller = assignment.caller
        return PeerTool(
            cell=self.settings.cell,
            file=self.settings.peers_file,
            ticket=caller.ticket,
            issuer=knowledge,
            calls=assembly.peer_calls(
                self.settings,
                self.connections,
                # A person chooses the context of a message, but neither the run nor the task.
                context=caller.run_id or assignment.task,
                is_stopping=lambda: self._is_stopping,
                peer_approvals=peer_approvals,
            ),
            framing=framing,
            meter=meter,
            save_usage=save_usage,
        ).tools()

    def _peer_cost(self, task: str) -> Decimal:
        return sum((usage.cost for usage in self.peer_usages(task).values()), Decimal(0))

    def _meter(self, assignment: Assignment) -> Meter:
        return assembly.open_meter(
            self.settings,
            self.config,
            self._open_ledger(),
            clock=self.connections.clock,
            task=assignment.task,
            max_task=assignment.caller.max_cost,
        )

    def _open_ledger(self) -> Ledger:
        if self._ledger is None:
            self._ledger = Ledger(self.settings.state / "ledger.db")
        return self._ledger


def _parse(value: Any) -> Knowledge:
    try:
        return prompt.parse_knowledge(value)
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise AgentError(
            FailureClass.INVALID_CONFIGURATION, "the facts in the message have another form"
        ) from exc


def _limits(value: Any) -> Injection:
    """Return the limits of a recall; limits that the operator does not send have defaults."""
    try:
        return Injection.model_validate(value or {})
    except pydantic.ValidationError:
        return Injection()


def _query(assignment: Assignment) -> str:
    if assignment.review is None:
        return assignment.text
    return str(assignment.review.get("objective") or assignment.text)


def _message(assignment: Assignment, knowledge: Knowledge, framing: PydanticFraming) -> str:
    if assignment.review is not None:
        review = Review(
            objective=str(assignment.review.get("objective") or ""),
            criteria=str(assignment.review.get("criteria") or ""),
            answer=str(assignment.review.get("answer") or ""),
            knowledge=knowledge,
        )
        return prompt.review_message(review, framing)
    work = Work(
        objective=assignment.text,
        feedback=str(assignment.work.get("feedback") or ""),
        knowledge=knowledge,
    )
    return prompt.first_message(work, framing)
