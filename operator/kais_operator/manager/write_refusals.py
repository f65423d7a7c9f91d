"""The WriteRefusals port: what the API server refused, while it refuses it."""

from __future__ import annotations

from kais_operator.planning.plan import ObjectRef


class WriteRefusalMemory:
    """Refusals of this process, one for each key."""

    def __init__(self) -> None:
        self._messages: dict[ObjectRef, str] = {}

    def refusal(self, key: ObjectRef) -> str | None:
        """Return why the last reconcile's writes were refused; None when they were accepted."""
        return self._messages.get(key)

    def note(self, key: ObjectRef, message: str) -> None:
        """Note that writes of a reconcile were refused, and why."""
        self._messages[key] = message

    def forget(self, key: ObjectRef) -> None:
        """Forget the refusal: the writes were accepted, or the object is gone."""
        self._messages.pop(key, None)

    def clear(self) -> None:
        """Forget all refusals: another process may have led and written since."""
        self._messages.clear()
