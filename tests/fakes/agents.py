"""Cells that serve A2A, in memory: tasks by message, and what each message said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kais.agent_results import AgentUsage
from kais.approvals import ApprovalDecision
from kais_operator.planning.agent_tasks import ENDED, AgentReply, AgentTask, TaskState
from kais_operator.planning.plan import AgentCall, ObjectRef, SendMessage

OURS = AgentReply(is_idempotent=True, has_heartbeat=True)
FOREIGN = AgentReply()


@dataclass
class FakeAgents:
    """The Agents port of one operator process.

    Attributes:
        tasks: the state of the cells, which outlives the operator, by message id.
        deliveries: every message that a cell got, repeats included.
        cancelled: the ids of the messages whose tasks were cancelled.
        card: what cells answer besides the task.
        loses_messages: a message is sent but does not arrive.
        refuses_connections: a message is not even sent, and the sender knows it.
        ignores_cancels: a task works on when it is cancelled.
        usage_when_cancelled: the last report of a task that is cancelled.
        asked: every question about a message.
        decisions: what people decided about tool calls, as it was passed on.
        deciders: where each decision was sent.
    """

    tasks: dict[str, AgentTask] = field(default_factory=dict)
    deliveries: list[SendMessage] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    card: AgentReply = OURS
    loses_messages: bool = False
    refuses_connections: bool = False
    ignores_cancels: bool = False
    usage_when_cancelled: AgentUsage | None = None
    asked: list[AgentCall] = field(default_factory=list)
    decisions: list[ApprovalDecision] = field(default_factory=list)
    deciders: list[AgentCall] = field(default_factory=list)
    _undelivered: set[str] = field(default_factory=set)
    _ended: dict[str, AgentTask] = field(default_factory=dict)

    async def reply_to(self, call: AgentCall) -> AgentReply:
        self.asked.append(call)
        task = self._ended.get(call.message_id) or self.tasks.get(call.message_id)
        if task is not None and task.state in ENDED and self.card.problem is None:
            self._ended[call.message_id] = task
        return replace(
            self.card,
            task=task,
            is_cancel_sent=call.message_id in self.cancelled,
            is_undelivered=self.is_undelivered(call),
        )

    def on_end(self, notify: Callable[[ObjectRef], None]) -> None:
        """No end is noticed here; tests make the passes themselves."""

    def is_undelivered(self, call: AgentCall) -> bool:
        return call.message_id in self._undelivered

    def has_ended(self, call: AgentCall) -> bool:
        return call.message_id in self._ended

    def send(self, message: SendMessage) -> None:
        identity = message.call.message_id
        if self.refuses_connections:
            if message.is_first:
                self._undelivered.add(identity)
            return
        self._undelivered.discard(identity)
        if self.loses_messages:
            return
        self.deliveries.append(message)
        if self.card.is_idempotent:
            self.tasks.setdefault(identity, AgentTask(TaskState.WORKING))
        else:
            self.tasks[identity] = AgentTask(TaskState.WORKING)

    async def cancel(self, call: AgentCall) -> None:
        self.cancelled.append(call.message_id)
        task = self.tasks.get(call.message_id)
        if self.ignores_cancels or task is None or task.state in ENDED:
            return
        usage = self.usage_when_cancelled or task.usage
        self.tasks[call.message_id] = replace(task, state=TaskState.CANCELED, usage=usage)

    async def decide(self, call: AgentCall, decision: ApprovalDecision) -> None:
        self.decisions.append(decision)
        self.deciders.append(call)

    def end_all(self) -> None:
        """Forget which messages were not delivered, and ended tasks: only a process knows them."""
        self._undelivered.clear()
        self._ended.clear()
