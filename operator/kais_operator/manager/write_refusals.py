"""The WriteRefusals port: what the API server refused or failed to write, until it writes it."""

from __future__ import annotations

from datetime import datetime

from kais_operator.planning.failed_write import FailedWrite
from kais_operator.planning.plan import ObjectRef


class WriteRefusalMemory:
    """Refusals and failures of this process, by key."""

    def __init__(self) -> None:
        self._messages: dict[ObjectRef, str] = {}
        self._failures: dict[ObjectRef, FailedWrite] = {}

    def refusal(self, key: ObjectRef) -> str | None:
        """Return why the last reconcile's writes were refused; None when they were accepted."""
        return self._messages.get(key)

    def failure(self, key: ObjectRef) -> FailedWrite | None:
        """Return the failures since the last writes that were accepted or refused."""
        return self._failures.get(key)

    def note(self, key: ObjectRef, message: str) -> None:
        """Note that writes of a reconcile were refused, and why."""
        self._messages[key] = message
        self._failures.pop(key, None)

    def note_failure(self, key: ObjectRef, message: str, *, at: datetime) -> None:
        """Note that the API server failed to write; an earlier refusal still stands."""
        earlier = self._failures.get(key)
        first_at = at if earlier is None else earlier.first_at
        self._failures[key] = FailedWrite(message, first_at, last_at=at)

    def forget(self, key: ObjectRef) -> None:
        """Forget the key: its writes were accepted, or the object is gone."""
        self._messages.pop(key, None)
        self._failures.pop(key, None)

    def clear(self) -> None:
        """Forget everything: another process may have led and written since."""
        self._messages.clear()
        self._failures.clear()
