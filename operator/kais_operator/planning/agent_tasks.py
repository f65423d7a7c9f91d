"""Reports of cells that serve A2A about the messages that a Mission sent them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from kais.agent_results import AgentFailure, AgentUsage, Artifact
from kais.approvals import CallApproval
from kais.mcp_servers import Reports


class TaskState(StrEnum):
    """The state of a task, as its server reports it."""

    SUBMITTED = "submitted"
    WORKING = "working"
    INPUT_REQUIRED = "input-required"
    AUTH_REQUIRED = "auth-required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    REJECTED = "rejected"


ENDED = frozenset({TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED})
WAITING_FOR_PEOPLE = frozenset({TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED})


@dataclass(frozen=True)
class AgentTask:
    """A task as its server reports it.

    Attributes:
        message: the text of its status, such as why it failed.
        usage: its usage, with that of the peers that worked for it; None if none was reported.
        failure: why the agent gave no answer; None for servers that report no class.
        receipt: the receipt of the facts that the agent got with the message; None without one.
        approvals: its tool calls that wait for a person, or how they were decided.
        servers: what its cell reports about its MCP servers; None if it reports nothing.
        heartbeat: the latest sign of life; None for servers that give none.
    """

    state: TaskState
    answer: str = ""
    is_truncated: bool = False
    message: str = ""
    usage: AgentUsage | None = None
    failure: AgentFailure | None = None
    artifacts: tuple[Artifact, ...] = ()
    receipt: str | None = None
    heartbeat: datetime | None = None
    approvals: tuple[CallApproval, ...] = ()
    servers: Reports | None = None


@dataclass(frozen=True)
class AgentReply:
    """The answer of a cell about one message.

    Attributes:
        is_idempotent: its card names the idempotency extension.
        has_heartbeat: its card names the heartbeat extension.
        task: the task of the message; None if the server does not know the message.
        is_sending: this process is sending the message, and has no answer yet.
        refusal: why the server refused the message; sending it again would be refused as well.
        is_undelivered: this process knows that no server ever got the message.
        is_cancel_sent: this process has asked the cell to cancel the task, whatever the cell did.
        problem: why the cell could not be asked; None if it answered.
    """

    is_idempotent: bool = False
    has_heartbeat: bool = False
    task: AgentTask | None = None
    is_sending: bool = False
    refusal: str | None = None
    is_undelivered: bool = False
    is_cancel_sent: bool = False
    problem: str | None = None
