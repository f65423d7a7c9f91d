"""Tool calls that wait for a person: stored before they wait, so that they survive a restart.

In mode Service the server of the cell takes the decisions. In mode Task the operator stores them
by a command in the container (`call_decisions`), and `follow` notices them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from agent_runtime import journal as journals
from agent_runtime.errors import AgentError
from agent_runtime.events import AgentEvent, EventSink
from agent_runtime.mind import ApprovalRule
from agent_runtime.money.meter import Clock
from agent_runtime.state import State
from kais import approvals, mcp_servers
from kais.agent_results import FailureClass
from kais.approvals import ApprovalDecision, CallApproval

_log = logging.getLogger(__name__)
FOLLOW_S: Final = 0.5
"""The interval for reading decisions of another process."""


class DecisionRefused(Exception):
    """A decision cannot be applied; the status is 404 or 409."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Approvals:
    """The approvals of all tasks of a cell."""

    state: State
    clock: Clock
    _waiting: dict[str, asyncio.Event] = field(default_factory=dict)

    def of_task(self, task: str) -> list[CallApproval]:
        """Return the calls of a task and its peers that people are shown."""
        return list(approvals.shown(self._calls(task)))

    def is_waiting(self, task: str) -> bool:
        """Whether a call of a task, or of a peer that works for it, waits for a person."""
        return any(approval.outcome is None for approval in self._calls(task))

    def _calls(self, task: str) -> tuple[CallApproval, ...]:
        own_calls, peer_calls = self.state.approvals(task), self.state.peer_approvals(task)
        return approvals.merged(peer_calls, own_calls)

    def decide(self, decision: ApprovalDecision) -> CallApproval:
        """Apply the decision of a person; a repeated one changes nothing.

        Raises:
            DecisionRefused: The call is unknown, has other arguments, or is decided otherwise.
        """
        recorded_call = self.state.approval(decision.call)
        if recorded_call is None:
            raise DecisionRefused(404, f"no call {decision.call} waits for an approval here")
        if recorded_call.sha256 != decision.sha256:
            raise DecisionRefused(
                409, f"call {decision.call} has other arguments than those that were shown"
            )
        outcome = approvals.OUTCOMES[decision.decision]
        if recorded_call.outcome is None:
            recorded_call = self._end(
                recorded_call, outcome, by=decision.by, reason=decision.reason
            )
        if (recorded_call.outcome, recorded_call.by) != (outcome, decision.by):
            raise DecisionRefused(
                409,
                f"call {decision.call} was {recorded_call.outcome} by"
                f" {recorded_call.by or 'its timeout'} before",
            )
        return recorded_call

    async def follow(self) -> None:
        """Notice the decisions that another process stores, until cancelled."""
        while True:
            try:
                self._notice()
            except AgentError as exc:
                _log.warning("cannot read decisions about calls: %s", exc)
            await asyncio.sleep(FOLLOW_S)

    def _notice(self) -> None:
        for call, decided in self._waiting.items():
            recorded_call = self.state.approval(call)
            if recorded_call is not None and recorded_call.outcome is not None:
                decided.set()

    async def wait(self, request: CallApproval, expires_s: float) -> CallApproval:
        """Wait until a person decides about a call, or its time is over."""
        decided = self._waiting.setdefault(request.call, asyncio.Event())
        recorded_call = self.state.approval(request.call)
        if recorded_call is not None and recorded_call.outcome is not None:
            decided.set()  # a decision came while the task was shown as waiting
        try:
            async with asyncio.timeout(max(0.0, expires_s - self.clock.now_s())):
                await decided.wait()
        except TimeoutError:
            recorded_call = self.state.approval(request.call) or request
            if recorded_call.outcome is None:
                self._end(recorded_call, "expired", by=None, reason="")
        finally:
            self._waiting.pop(request.call, None)
        return self.state.approval(request.call) or request

    def _end(
        self, approval: CallApproval, outcome: approvals.Outcome, *, by: str | None, reason: str
    ) -> CallApproval:
        at = time_text(self.clock.now_s())
        decided = replace(approval, outcome=outcome, by=by, decided_at=at, reason=reason)
        self.state.end_approval(decided)
        waiting = self._waiting.get(approval.call)
        if waiting is not None:
            waiting.set()
        return self.state.approval(approval.call) or approval


@dataclass
class CallNumbers:
    """Derives ids of calls from their content, so that a new pod of the run uses the same ones.

    The ids that the model assigns differ between pods. The id here depends on the tool, the
    arguments, and how often the tool was called with them before. `run` contains the id of the run
    and the first attempt whose calls are continued.
    """

    run: str
    _counts: Counter[str] = field(default_factory=Counter)

    def next_id(self, tool: str, sha256: str) -> str:
        """Return the id of the next call of a tool with these arguments."""
        content = f"{tool}/{sha256}"
        self._counts[content] += 1
        return journals.derive_call_id(self.run, f"{content}/{self._counts[content]}")


@dataclass(frozen=True)
class ApprovalGate:
    """Holds the calls of one task until a person approves them.

    Attributes:
        changed: called when a call starts to wait, and when it stops waiting.
        numbers: derives the ids of calls in mode Task; None in mode Service, which uses the ids of
            the journal.
    """

    task: str
    rules: Mapping[str, ApprovalRule | None]
    approvals: Approvals
    sink: EventSink
    changed: Callable[[], Awaitable[None]]
    numbers: CallNumbers | None = None

    async def refusal(self, call: str, tool: str, arguments: Mapping[str, Any]) -> str | None:
        """Wait for the approval of a call if its tool needs one.

        Returns:
            None if the call may run; otherwise the answer for the mind.

        Raises:
            AgentError: The arguments differ from the approved ones, or the approval timed out and
                the spec makes the attempt fail then.
        """
        rule = self._rule(tool)
        if rule is None:
            return None
        text = approvals.canonical(arguments)
        if len(text) > approvals.ARGUMENT_CHARACTERS:
            return f"{tool} was not called: its arguments are too long to be approved"
        if self.numbers is not None:
            call = self.numbers.next_id(tool, approvals.hash_of(text))
        recorded_call = self.approvals.state.approval(call)
        if recorded_call is None:
            now = self.approvals.clock.now_s()
            recorded_call = CallApproval(
                call=call,
                tool=tool,
                arguments=text,
                sha256=approvals.hash_of(text),
                requested_at=time_text(now),
                expires_at=time_text(now + rule.timeout_s),
            )
            self.approvals.state.add_approval(self.task, recorded_call)
        if recorded_call.sha256 != approvals.hash_of(text):
            raise AgentError(
                FailureClass.TOOL_FAILED,
                f"the arguments of {tool} changed after its approval was asked for",
            )
        if recorded_call.outcome is None:
            self.sink(AgentEvent("approval", f"{tool} waits for an approval: {text}"))
            await self.changed()
            expires_s = datetime.fromisoformat(recorded_call.expires_at).timestamp()
            recorded_call = await self.approvals.wait(recorded_call, expires_s)
            self.sink(AgentEvent("approval", sentence(recorded_call)))
            await self.changed()
        return self._outcome(rule, recorded_call)

    def _rule(self, tool: str) -> ApprovalRule | None:
        """Return the rule of a tool, otherwise that of its MCP server."""
        server = mcp_servers.server_of(tool)
        if tool in self.rules or server is None:
            return self.rules.get(tool)
        return self.rules.get(f"{server}{mcp_servers.SEPARATOR}")

    def _outcome(self, rule: ApprovalRule, recorded_call: CallApproval) -> str | None:
        if recorded_call.outcome == "approved":
            return None
        if recorded_call.outcome == "expired" and rule.fails:
            message = f"{recorded_call.tool} was not approved until {recorded_call.expires_at}"
            raise AgentError(FailureClass.TOOL_FAILED, message)
        return sentence(recorded_call)


def sentence(approval: CallApproval) -> str:
    """Describe how a call was decided, by whom and when."""
    if approval.outcome == "expired":
        return f"{approval.tool} was not called: it was not approved until {approval.expires_at}"
    if approval.outcome == "spent":
        return (
            f"{approval.tool} was not called: approved by {approval.by} at {approval.decided_at}"
            " for an earlier pod of this run, which may have made the call"
        )
    verb = "may run" if approval.outcome == "approved" else "was not called"
    reason = f": {approval.reason}" if approval.reason else ""
    return (
        f"{approval.tool} {verb}: {approval.outcome} by {approval.by} at {approval.decided_at}"
        f"{reason}"
    )


def time_text(at_s: float) -> str:
    """Return a time as RFC 3339."""
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds")
