"""How operator, agent runtime and peers use A2A 1.0: ids, addresses, and what kais adds to it.

Ids are derived from the run, the attempt and the purpose of a message. So a sender does not need to
store an id before it sends, and can ask later whether the task exists.

The agent card declares the additions of kais as extensions. A server with the idempotency extension
answers a repeated message with the task of the first one, and refuses the same id with another
content. A server with the heartbeat extension renews a time in the metadata of a working task.
"""

from __future__ import annotations

import re
import uuid
from typing import Any, Final, Literal

TICKET_HEADER: Final = "X-Kais-Ticket"
"""The header of the caller's ticket; the proxy of the API server drops `Authorization`."""
PORT: Final = 8080
PORT_NAME: Final = "a2a"
CARD_PATH: Final = "/.well-known/agent-card.json"
RPC_PATH: Final = "/rpc"
REST_PATH: Final = "/rest"

IDEMPOTENCY_EXTENSION: Final = "https://kais.io/a2a/idempotency/v1"
HEARTBEAT_EXTENSION: Final = "https://kais.io/a2a/heartbeat/v1"
HEARTBEAT_KEY: Final = HEARTBEAT_EXTENSION
"""Metadata of a task: an RFC 3339 time, renewed every `HEARTBEAT_S` seconds while it works."""
HEARTBEAT_S: Final = 10
STALE_S: Final = 60
"""Age of the heartbeat from which a task counts as dead while its pod is ready."""
USAGE_KEY: Final = "https://kais.io/a2a/usage/v1"
"""Metadata of a task: its usage so far, with the fields of a termination message."""
FAILURE_KEY: Final = "https://kais.io/a2a/failure/v1"
"""Metadata of a failed task: `class` and `message`."""
ARTIFACTS_KEY: Final = "https://kais.io/a2a/artifacts/v1"
"""Metadata of a task: the files that it wrote, each with `path` and `bytes`."""
WORK_KEY: Final = "https://kais.io/a2a/work/v1"
"""Metadata of a mission's message: `feedback`, and the recalled facts as `knowledge`.

A message that asks for a review has `review` instead: `objective`, `criteria` and `answer`.
"""
PEER_USAGE_KEY: Final = "https://kais.io/a2a/peer-usage/v1"
"""Metadata of a task: the usage of the cells that it has asked, by their names."""
RECEIPTS_KEY: Final = "https://kais.io/a2a/receipts/v1"
"""Metadata of a task: the receipts of the facts that the runtime put in front of the mind."""
TRUNCATED_KEY: Final = "https://kais.io/a2a/truncated/v1"
"""Metadata of a task: true if its answer is cut; a complete answer has no such key."""

MCP_SERVERS_KEY: Final = "https://kais.io/a2a/mcp-servers/v1"
"""Metadata of a task: what its cell reports about its MCP servers, by their names."""
APPROVALS_KEY: Final = "https://kais.io/a2a/approvals/v1"
"""Metadata of a task: its tool calls that wait for a person, or how they were decided."""
APPROVALS_PATH: Final = "/approvals"

OPERATOR: Final = "operator"
"""The owner of the tasks of missions."""

Purpose = Literal["work", "review"]
_IDS: Final = uuid.UUID("5f0d2b3c-6c1e-5d9a-9c39-6b8f5a3f7e41")
_URL: Final = re.compile(r"^[a-z][a-z0-9+.-]*://[^/?#]*(?P<path>/[^?#]*)?", re.IGNORECASE)


def message_id(run_id: str, attempt: int, purpose: Purpose) -> str:
    """Return the id of the one message that an attempt of a run sends for a purpose."""
    return str(uuid.uuid5(_IDS, f"message/{run_id}/{attempt}/{purpose}"))


def task_id(owner: str, message: str) -> str:
    """Return the id of the task that a message of an owner opens in the agent runtime."""
    return str(uuid.uuid5(_IDS, f"task/{owner}/{message}"))


def interface_path(url: str) -> str:
    """Return the path of an address on an agent card, which is all that is used of it.

    A card is untrusted input: it must not choose the host that a key or a ticket is sent to.

    Raises:
        ValueError: It is no address, or its path leaves the server.
    """
    match = _URL.match(url)
    if match is None:
        raise ValueError("the address of an interface on the agent card is no URL")
    path = match["path"] or "/"
    if not path.isprintable() or "\\" in path or any(p in (".", "..") for p in path.split("/")):
        raise ValueError("the address of an interface on the agent card has no plain path")
    return path


def whole_numbers(value: Any) -> Any:
    """Turn 3.0 back into 3 everywhere inside JSON: metadata of A2A knows only floats."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: whole_numbers(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [whole_numbers(entry) for entry in value]
    return value
