"""The journal of a model server: one entry for each call, in the order of their arrival."""

from __future__ import annotations

import hashlib
import threading
from typing import Any

import msgspec

from tests.model_server.conversation import Conversation

OPEN, ANSWERED, CUT, ABANDONED = "open", "answered", "cut", "abandoned"


class Entry(msgspec.Struct):
    """One call.

    Attributes:
        rule: the rule that answered; empty when none did.
        key: the first digits of the credential's SHA-256; never the credential.
        input_tokens: what the answer reported, for the sum of what a client has to account for.
        state: open, answered, cut by the script, or abandoned by the client.
        request: the body of the request.
    """

    number: int
    api: str
    model: str
    turn: int
    rule: str
    status: int
    is_streaming: bool
    key: str
    tool_calls: list[str]
    input_tokens: int
    output_tokens: int
    request: dict[str, Any]
    state: str = OPEN


class Journal:
    """All calls since the start or since the last reset."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.has_calls = threading.Event()
        self._changed = threading.Condition()

    def reset(self) -> None:
        """Forget all calls."""
        self.entries.clear()
        self.has_calls.clear()

    def uses(self, rule: str) -> int:
        """Return how often a rule has answered."""
        return sum(entry.rule == rule for entry in self.entries)

    def open(
        self,
        conversation: Conversation,
        *,
        api: str,
        key: str,
        request: dict[str, Any],
    ) -> Entry:
        """Record a call at its arrival."""
        entry = Entry(
            number=len(self.entries) + 1,
            api=api,
            model=conversation.model,
            turn=conversation.turn,
            rule="",
            status=200,
            is_streaming=conversation.is_streaming,
            key=fingerprint(key),
            tool_calls=[],
            input_tokens=0,
            output_tokens=0,
            request=request,
        )
        self.entries.append(entry)
        self.has_calls.set()
        with self._changed:
            self._changed.notify_all()
        return entry

    def wait_for_calls(self, count: int, timeout_s: float) -> bool:
        """Wait until this many calls have arrived; False if they do not in time."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.entries) >= count, timeout_s)


def fingerprint(key: str) -> str:
    """Return what a journal shows of a credential."""
    return hashlib.sha256(key.encode()).hexdigest()[:12] if key else ""
