"""Task mode: one attempt of a mission, from its inputs to its result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from decimal import Decimal
from pathlib import Path

from agent_runtime import approval_rows, assembly, mind, prompt, result_files, telemetry
from agent_runtime.agent import agent_run, connection
from agent_runtime.agent.agent_run import Answer
from agent_runtime.agent.frames import PydanticFraming
from agent_runtime.agent.metered_model import Supervision
from agent_runtime.agent_progress import Progress
from agent_runtime.approvals import ApprovalGate, Approvals, CallNumbers
from agent_runtime.assembly import Connections, RunContext
from agent_runtime.errors import AgentError
from agent_runtime.events import AgentEvent, EventSink
from agent_runtime.journal import Journal
from agent_runtime.mind import MindConfig
from agent_runtime.model_http import ModelKey
from agent_runtime.money.ledger import Ledger
from agent_runtime.money.meter import Meter
from agent_runtime.server_tools import ServerReports
from agent_runtime.settings import Settings
from agent_runtime.state import State, TaskRow
from agent_runtime.tickets import Caller
from agent_runtime.tools import peers
from agent_runtime.tools.peers import PeerTool
from agent_runtime.tools.workspace import Workspace
from kais import a2a
from kais.agent_results import AgentFailure, AgentResult, AgentUsage, Artifact
from kais.agent_tools import AgentTool
from knowledge_client import AsyncKnowledgeClient
from knowledge_client.settings import Settings as RunSettings

_log = logging.getLogger(__name__)


class Attempt:
    """One attempt of a cell with a mind."""

    def __init__(
        self, settings: Settings, run: RunSettings, key: ModelKey, connections: Connections
    ) -> None:
        self._settings = settings
        self._run_settings = run
        self._run = RunContext(run_id=run.run_id, attempt=run.attempt, mission_id=run.mission_id)
        self._key = key
        self._connections = connections
        self._progress = Progress()
        self._framing = PydanticFraming()
        self._servers = ServerReports()
        self._workspace = Workspace(
            shared=settings.workspace / "shared",
            private=self._private_folder(),
            framing=self._framing,
        )
        self._ledger: Ledger | None = None
        self._meter: Meter | None = None
        self._peer_usages: dict[str, AgentUsage] = {}

    def close(self) -> None:
        """Close the ledger; the result needs it open."""
        if self._ledger is not None:
            self._ledger.close()

    async def run(self) -> AgentResult:
        """Work, and return the result; a failure is a result too."""
        try:
            with telemetry.attempt(
                self._connections.traces,
                self._settings.traceparent,
                run_id=self._run.run_id,
                attempt=self._run.attempt,
            ):
                async with AsyncExitStack() as stack:
                    answer = await self._work(stack)
        except AgentError as exc:
            return self.result(failure=exc.failure)
        result_files.write_answer(answer.text, self._private_folder())
        return self.result(answer=answer.text, is_truncated=answer.is_truncated)

    def result(
        self, *, answer: str = "", is_truncated: bool = False, failure: AgentFailure | None = None
    ) -> AgentResult:
        """Return a result with the usage so far, peers included, and with the key masked."""
        usage = AgentResult().usage
        if self._meter is not None:
            try:
                usage = self._meter.usage(tool_calls=self._progress.tool_calls)
                usage = sum(self._peer_usages.values(), start=usage)
            except AgentError as exc:
                failure = failure or exc.failure
        if failure is not None:
            failure = AgentFailure(failure.reason, self._key.mask(failure.message))
        return AgentResult(
            answer=self._key.mask(answer),
            is_truncated=is_truncated,
            usage=usage,
            failure=failure,
            artifacts=tuple(
                Artifact(path, size) for path, size in self._workspace.written_sizes.items()
            ),
            servers=self._servers.reports,
        )

    async def _report(self) -> None:
        """Write the usage so far, so that it is known if the container is killed."""
        file, limit = self._settings.termination_file, self._settings.result_bytes
        try:
            result_files.write_result(self.result(), file, limit_bytes=limit)
        except OSError as exc:
            _log.warning("cannot report the cost so far in %s: %s", file, exc)

    async def _work(self, stack: AsyncExitStack) -> Answer:
        settings, config = self._settings, mind.load(self._settings)
        await self._report()
        self._ledger = Ledger(settings.state / "ledger.db")
        self._meter = assembly.open_meter(
            settings,
            config,
            self._ledger,
            clock=self._connections.clock,
            max_task=settings.max_cost,
        )
        self._meter.check_price(config.model)
        assembly.require_key(config, self._key)
        client = assembly.model_client(config, self._key, self._connections)
        await stack.enter_async_context(client)
        model = connection.connect(config, client)
        framing = self._framing
        work = prompt.Work(
            objective=settings.objective,
            message=settings.message,
            feedback=settings.feedback,
            knowledge=prompt.read_knowledge(settings.knowledge_file),
        )
        tools, sink = await self._connect_knowledge(config, framing, self._meter, stack)
        servers = assembly.open_servers(
            settings,
            config,
            self._key,
            framing,
            connections=self._connections,
            reports=self._servers,
        )
        if servers is not None:
            stack.push_async_callback(servers.close)
        gate, journal = self._open_gate(config, sink, stack)
        supervision = Supervision(
            mind=config,
            meter=self._meter,
            sink=sink,
            framing=framing,
            mask=self._key.mask,
            policy=self._connections.policy,
            traces=self._connections.traces,
            peers=self._peers(tools),
            servers=servers,
            gate=gate,
            reserved=self._report,
        )
        _log.info(
            "attempt %s with model %s, %d facts, %d tools",
            self._run_settings.attempt or 1,
            config.model,
            len(work.knowledge.facts),
            len(tools),
        )
        try:
            return await agent_run.run(
                model,
                supervision,
                progress=self._progress,
                message=prompt.first_message(work, framing),
                tools=list(tools.values()),
                journal=journal,
            )
        except AgentError as exc:
            reason = exc.failure.reason
            sink(AgentEvent("error", f"{reason}: {exc.failure.message}", signature=reason.value))
            raise

    def _open_gate(
        self, config: MindConfig, sink: EventSink, stack: AsyncExitStack
    ) -> tuple[ApprovalGate | None, Journal | None]:
        """Return the gate that holds calls for a person; None if no tool needs an approval.

        The journal is new in each pod, because the container is never restarted.
        """
        if not any(config.approvals.values()):
            return None, None
        state = State(self._settings.state / approval_rows.STATE_FILE)
        stack.callback(state.close)
        clock, run_id = self._connections.clock, self._run.run_id or ""
        task = f"{run_id}/{self._run.attempt or 1}"
        state.add_task(
            TaskRow(
                id=task,
                owner=a2a.OPERATOR,
                context=run_id,
                content_hash="",
                caller=Caller(name=a2a.OPERATOR, role="operator"),
                is_final=False,
                updated_ns=int(clock.now_s() * 1e9),
                body=b"",
            )
        )
        approvals = Approvals(state, clock)
        decisions = asyncio.create_task(approvals.follow())
        stack.callback(decisions.cancel)
        numbers = CallNumbers(f"{run_id}/{self._settings.calls_since}")
        gate = ApprovalGate(task, config.approvals, approvals, sink, _no_report, numbers)
        return gate, state.journal(task)

    async def _connect_knowledge(
        self, config: MindConfig, framing: PydanticFraming, meter: Meter, stack: AsyncExitStack
    ) -> tuple[assembly.Tools, EventSink]:
        """Return the tools of the mind, and where its events go."""
        settings, run = self._settings, self._run
        available = self._workspace.tools() | assembly.blackboard(
            settings, framing, self._connections, run=run.run_id or "", arm=settings.arm
        )
        sink: EventSink = assembly.ignore_event
        if settings.knowledge_url is not None:
            client = assembly.knowledge_client(
                settings.knowledge_url,
                token_file=self._run_settings.token_file,
                connections=self._connections,
            )
            await stack.enter_async_context(client)
            available |= assembly.knowledge_tools(settings, client, framing, run)
            if AgentTool.ASK_PEER in config.tools:
                available |= self._peer_tool(client, framing, meter)
            sink = assembly.open_recorder(
                settings, client, self._key, run, stack, clock=self._connections.clock
            )
        return assembly.select_tools(config, available), sink

    def _peer_tool(
        self, client: AsyncKnowledgeClient, framing: PydanticFraming, meter: Meter
    ) -> assembly.Tools:
        """Return the tool that asks peers; a stopped pod cancels its questions."""

        def save_usage(message: str, usages: Mapping[str, AgentUsage]) -> None:
            self._peer_usages[message] = sum(usages.values(), start=AgentUsage())
            meter.set_peer_cost(
                sum((usage.cost for usage in self._peer_usages.values()), Decimal(0))
            )

        return PeerTool(
            cell=self._settings.cell,
            file=self._settings.peers_file,
            ticket=None,
            run_id=self._run.run_id,
            attempt=self._run.attempt or 1,
            issuer=client,
            calls=assembly.peer_calls(
                self._settings, self._connections, context=self._run.run_id or ""
            ),
            framing=framing,
            meter=meter,
            save_usage=save_usage,
        ).tools()

    def _peers(self, tools: assembly.Tools) -> tuple[str, ...]:
        if AgentTool.ASK_PEER not in tools:
            return ()
        return peers.read_peers(self._settings.peers_file, self._settings.cell)

    def _private_folder(self) -> Path:
        return self._settings.workspace / "private" / self._settings.cell


async def _no_report() -> None:
    """Report nothing: the operator asks for the calls."""
