"""Reads what an A2A server sends: cards and tasks, bounded and without trust."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from a2a.types import AgentCard, Artifact, Message, Part, Task
from a2a.types import TaskState as WireState
from google.protobuf import json_format

from kais import a2a, agent_results, approvals, mcp_servers
from kais.agent_results import AgentResult, AgentUsage
from kais.approvals import CallApproval
from kais_operator.controllers.mission.decide import mind_usage
from kais_operator.planning.agent_tasks import AgentTask, TaskState

_ANSWER_CHARACTERS = 64 * 1024
"""The number of characters of an answer that are read; a Mission records and shows fewer."""
_RECEIPT_CHARACTERS = 100
"""An arbitrary bound, above the length of the ids of receipts."""
_STATES = {
    WireState.TASK_STATE_SUBMITTED: TaskState.SUBMITTED,
    WireState.TASK_STATE_WORKING: TaskState.WORKING,
    WireState.TASK_STATE_INPUT_REQUIRED: TaskState.INPUT_REQUIRED,
    WireState.TASK_STATE_AUTH_REQUIRED: TaskState.AUTH_REQUIRED,
    WireState.TASK_STATE_COMPLETED: TaskState.COMPLETED,
    WireState.TASK_STATE_FAILED: TaskState.FAILED,
    WireState.TASK_STATE_CANCELED: TaskState.CANCELED,
    WireState.TASK_STATE_REJECTED: TaskState.REJECTED,
}


def names_extension(card: AgentCard, uri: str) -> bool:
    """Return whether a card names an extension."""
    return any(extension.uri == uri for extension in card.capabilities.extensions)


def with_address(card: AgentCard, base: str) -> AgentCard:
    """Return the card with the addresses of its interfaces on `base`; only their paths are used.

    Interfaces of another kind than JSON-RPC and REST, and those without a plain path, are left out.
    """
    bound = AgentCard()
    bound.CopyFrom(card)
    del bound.supported_interfaces[:]
    for interface in card.supported_interfaces:
        if interface.protocol_binding not in ("JSONRPC", "HTTP+JSON"):
            continue
        try:
            path = a2a.interface_path(interface.url)
        except ValueError:
            continue
        added = bound.supported_interfaces.add()
        added.CopyFrom(interface)
        added.url = f"{base}{path}"
    return bound


def read_task(task: Task) -> AgentTask:
    """Return a task as the operator represents it."""
    metadata = _metadata(task.metadata)
    report = _report(metadata)
    text, is_cut = _answer(task)
    return AgentTask(
        state=_STATES.get(task.status.state, TaskState.SUBMITTED),
        answer=text,
        is_truncated=is_cut or metadata.get(a2a.TRUNCATED_KEY) is True,
        message=_text(task.status.message.parts)[:_ANSWER_CHARACTERS],
        usage=_usage(report, metadata),
        failure=report.failure if report else None,
        artifacts=report.artifacts if report else (),
        receipt=_receipt(metadata.get(a2a.RECEIPTS_KEY)),
        heartbeat=_heartbeat(metadata.get(a2a.HEARTBEAT_KEY)),
        approvals=_approvals(metadata.get(a2a.APPROVALS_KEY)),
        servers=mcp_servers.parse_reports(metadata.get(a2a.MCP_SERVERS_KEY)) or None,
    )


def read_answer(message: Message) -> AgentTask:
    """Return the direct answer of a server that opened no task."""
    text = _text(message.parts)
    return AgentTask(TaskState.COMPLETED, text[:_ANSWER_CHARACTERS], len(text) > _ANSWER_CHARACTERS)


def _answer(task: Task) -> tuple[str, bool]:
    artifacts: list[Artifact] = sorted(task.artifacts, key=lambda each: each.name != "answer")
    texts = (_text(artifact.parts) for artifact in artifacts)
    text = next((each for each in texts if each), "") or _text(task.status.message.parts)
    return text[:_ANSWER_CHARACTERS], len(text) > _ANSWER_CHARACTERS


def _text(parts: Iterable[Part]) -> str:
    return "\n".join(part.text for part in parts if part.text)


def _metadata(metadata: Any) -> Mapping[str, Any]:
    values = a2a.whole_numbers(json_format.MessageToDict(metadata))
    return values if isinstance(values, dict) else {}


def _report(metadata: Mapping[str, Any]) -> AgentResult | None:
    """Parse usage, failure and files with the reader of termination messages; None if unusable."""
    if a2a.USAGE_KEY not in metadata and a2a.FAILURE_KEY not in metadata:
        return None
    failure = {"failure": metadata.get(a2a.FAILURE_KEY)}
    complete = {
        **failure,
        "usage": metadata.get(a2a.USAGE_KEY),
        "artifacts": metadata.get(a2a.ARTIFACTS_KEY, ()),
    }
    return _parse(complete) or _parse(failure)


def _parse(value: Mapping[str, Any]) -> AgentResult | None:
    return agent_results.parse(
        json.dumps({agent_results.VERSION_KEY: agent_results.VERSION, **value})
    )


def _has_usage(metadata: Mapping[str, Any]) -> bool:
    """Whether a task reports a usage that can be read."""
    usage = metadata.get(a2a.USAGE_KEY)
    return usage is not None and _parse({"usage": usage}) is not None


def _usage(report: AgentResult | None, metadata: Mapping[str, Any]) -> AgentUsage | None:
    """Sum up the usage of a task and its peers; None if nothing usable is reported."""
    try:
        own_usage = report.usage if report is not None and _has_usage(metadata) else None
        return mind_usage.total([own_usage, *_peer_usages(metadata)])
    except ArithmeticError:
        return None


def _peer_usages(metadata: Mapping[str, Any]) -> list[AgentUsage]:
    peers = metadata.get(a2a.PEER_USAGE_KEY)
    usages = []
    for usage in peers.values() if isinstance(peers, dict) else ():
        text = json.dumps({agent_results.VERSION_KEY: agent_results.VERSION, "usage": usage})
        report = agent_results.parse(text)
        if report is not None:
            usages.append(report.usage)
    return usages


def _receipt(value: Any) -> str | None:
    """Return the first receipt: the runtime recalls once for each message."""
    receipts = value if isinstance(value, list) else []
    return next((receipt for receipt in receipts if _is_receipt(receipt)), None)


def _is_receipt(value: Any) -> bool:
    is_short = isinstance(value, str) and 0 < len(value) <= _RECEIPT_CHARACTERS
    return is_short and value.isascii() and value.isprintable()


def _approvals(value: Any) -> tuple[CallApproval, ...]:
    reported = value if isinstance(value, list) else []
    readable = [approvals.parse_call(entry) for entry in reported[-approvals.MAX_APPROVALS :]]
    return tuple(entry for entry in readable if entry is not None and approvals.is_of(entry))


def _heartbeat(value: Any) -> datetime | None:
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at
